#include "app/options/option_builders.h"

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

std::vector<Option> without(std::vector<Option> options,
                            std::initializer_list<std::string_view> names) {
  std::erase_if(options, [&](const Option& option) {
    return std::ranges::find(names, option.name) != names.end();
  });
  return options;
}

std::vector<Option> hide(std::vector<Option> options,
                         std::initializer_list<std::string_view> names) {
  for (Option& option : options)
    option.hidden |= std::ranges::find(names, option.name) != names.end();
  return options;
}

std::vector<Option> as_in(const std::string& command, std::vector<Option> options) {
  for (Option& option : options) option.explained_by = command;
  return options;
}

Option& named(std::vector<Option>& options, std::string_view name) {
  const auto found = std::ranges::find(options, name, &Option::name);
  if (found == options.end())
    throw Error(ErrorCode::internal, "no such option", "--" + std::string(name));
  return *found;
}

void refuse_beside_views(const ParsedOptions& options,
                         std::initializer_list<std::string_view> names) {
  if (!options.given("views")) return;
  const std::string& views = options.text("views");
  if (!image::facts_of(image::parse_views(views)).are_several) return;
  for (const std::string_view name : names) {
    if (!options.given(name)) continue;
    throw UsageError("works where a picture is one view",
                     options.origin(name) + " with " + options.origin("views") + " " + views,
                     "leave one of them out");
  }
}

Option number(std::string name, std::string help, std::string default_value, double minimum) {
  return number(std::move(name), std::move(help), by_default(std::move(default_value)),
                at_least(minimum));
}

Option integer(std::string name, std::string help, std::string default_value, double minimum) {
  return integer(std::move(name), std::move(help), by_default(std::move(default_value)),
                 at_least(minimum));
}

Option share(std::string name, std::string help, std::string default_value) {
  return number(std::move(name), std::move(help), by_default(std::move(default_value)), at_least(0),
                at_most(1));
}

Option stored_dtype(std::string default_note) {
  return text("dtype", "number format of the weights in the new file",
              otherwise(std::move(default_note)), one_of({"float32", "float16", "bfloat16"}),
              synonyms({{"fp32", "float32"}, {"fp16", "float16"}, {"bf16", "bfloat16"}}),
              formerly({"save-dtype", "precision", "fp16", "bf16"}), role(Role::place));
}

}  // namespace hydrascope::app
