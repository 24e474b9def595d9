#include "app/option_builders.h"

#include "kernels/error.h"

#include <algorithm>
#include <utility>

namespace hydrascope::app {

std::vector<Option> in_group(const std::string& group, std::vector<Option> options) {
  for (Option& option : options) option.group = group;
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

bool has_several_views(const ParsedOptions& options) {
  const std::string& views = options.text("views");
  return views == "tiles" || views == "pyramid";
}

void refuse_beside_views(const ParsedOptions& options,
                         std::initializer_list<std::string_view> names) {
  if (!has_several_views(options)) return;
  for (const std::string_view name : names) {
    if (!options.given(name)) continue;
    throw Error(
        ErrorCode::invalid_argument, "works where a picture is one view",
        options.origin(name) + " with " + options.origin("views") + " " + options.text("views"),
        "leave one of them out");
  }
}

Option flag(std::string name, std::string help, char short_name) {
  return {.name = std::move(name),
          .short_name = short_name,
          .kind = ValueKind::flag,
          .help = std::move(help)};
}

Option number(std::string name, std::string help, std::string default_value, double minimum) {
  return {.name = std::move(name),
          .kind = ValueKind::number,
          .placeholder = "X",
          .help = std::move(help),
          .default_value = std::move(default_value),
          .minimum = minimum};
}

Option integer(std::string name, std::string help, std::string default_value, double minimum) {
  return {.name = std::move(name),
          .kind = ValueKind::integer,
          .placeholder = "N",
          .help = std::move(help),
          .default_value = std::move(default_value),
          .minimum = minimum};
}

Option share(std::string name, std::string help, std::string default_value) {
  Option option = number(std::move(name), std::move(help), std::move(default_value));
  option.maximum = 1;
  return option;
}

Option save_dtype(std::string default_note) {
  return {.name = "save-dtype",
          .help = "number format of the weights in the new file",
          .default_note = std::move(default_note),
          .choices = {"float32", "float16", "bfloat16"},
          .aliases = {{"precision"}, {"dtype"}, {"fp16", "float16"}, {"bf16", "bfloat16"}}};
}

}  // namespace hydrascope::app
