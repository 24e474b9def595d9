// Cells in columns, for people.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace hydrascope::app {

/// Lines of as many cells in columns as wide as their widest, two blanks between them. Columns with
/// `to_left` are flush left, those without or beyond it flush right.
void write_columns(const std::vector<std::vector<std::string>>& lines,
                   const std::vector<bool>& to_left, std::ostream& out);

}  // namespace hydrascope::app
