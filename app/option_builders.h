// Words for writing tables of options.
#pragma once

#include "app/options.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// All of them under that heading of the help.
std::vector<Option> in_group(const std::string& group, std::vector<Option> options);
std::vector<Option> without(std::vector<Option> options,
                            std::initializer_list<std::string_view> names);

/// The same, those of `names` hidden.
std::vector<Option> hide(std::vector<Option> options,
                         std::initializer_list<std::string_view> names);

Option flag(std::string name, std::string help, char short_name = '\0');
/// At least `minimum`.
Option number(std::string name, std::string help, std::string default_value, double minimum = 0);
Option integer(std::string name, std::string help, std::string default_value, double minimum = 0);
/// Between 0 and 1.
Option share(std::string name, std::string help, std::string default_value);

/// Whether `--views`, where the command has it, cuts pictures into several.
bool has_several_views(const ParsedOptions& options);
/// Throws Error(invalid_argument) where it does and one of `names` is given, too.
void refuse_beside_views(const ParsedOptions& options,
                         std::initializer_list<std::string_view> names);

/// Of commands that write weights; elsewhere `--precision` is that of the computation.
Option save_dtype(std::string default_note);

}  // namespace hydrascope::app
