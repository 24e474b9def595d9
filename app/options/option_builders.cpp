#include "app/options/option_builders.h"

#include "app/options/option_table.h"
#include "app/options/requests.h"
#include "app/run/usage_error.h"
#include "model/image/transform_plan.h"

#include <algorithm>
#include <utility>

namespace hydrascope::app {

std::vector<Option> in_group(const std::string& group, Role role, std::vector<Option> options) {
  for (Option& option : options) {
    option.group = group;
    if (option.role == Role::undecided) option.role = role;
  }
  return options;
}

std::vector<Option> in_section(const std::string& section, std::vector<Option> options) {
  for (Option& option : options) keyed(section + "." + option.name)(option);
  return options;
}

std::vector<Option> without(std::vector<Option> options, std::initializer_list<Field> fields) {
  std::erase_if(options, [&](const Option& option) {
    return std::ranges::find(fields, option.field) != fields.end();
  });
  return options;
}

std::vector<Option> hide(std::vector<Option> options, std::initializer_list<Field> fields) {
  for (Option& option : options)
    option.hidden |= std::ranges::find(fields, option.field) != fields.end();
  return options;
}

CommandSpec with_settings(CommandSpec command) {
  if (std::ranges::all_of(command.options, &std::string::empty, &Option::key)) return command;
  Option row = text(
      "set",
      "setting of the model, the transform or the run; `hydrascope models info set` lists them",
      into(&SettingsRequest::words), takes("KEY=VALUE"), repeatable, in("Settings"),
      role(Role::console));
  for (const Subcommand& one : command.subcommands)
    if (std::ranges::any_of(command.options, [&](const Option& option) {
          return !option.key.empty() && taken_by(option, one.name);
        }))
      row.subcommands.push_back(one.name);
  command.options.push_back(std::move(row));
  return command;
}

Option& row_of(std::vector<Option>& options, const Field& field) {
  const auto found = std::ranges::find(options, field, &Option::field);
  if (found == options.end()) throw Error(ErrorCode::internal, "no option fills the field");
  return *found;
}

Option stored_dtype(std::string default_note) {
  return text("dtype", "number format of the weights in the new file",
              into(&WeightsRequest::dtype, parse_dtype), otherwise(std::move(default_note)),
              one_of({"float32", "float16", "bfloat16"}),
              synonyms({{"fp32", "float32"}, {"fp16", "float16"}, {"bf16", "bfloat16"}}),
              role(Role::place));
}

}  // namespace hydrascope::app
