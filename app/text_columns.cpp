#include "app/text_columns.h"

#include "app/terminal_text.h"

#include <algorithm>
#include <cstddef>

namespace hydrascope::app {

void write_columns(const std::vector<std::vector<std::string>>& lines,
                   const std::vector<bool>& to_left, std::ostream& out) {
  if (lines.empty()) return;
  std::vector<std::size_t> widths(lines.front().size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], columns(line[i]));
  }
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string blanks(widths[i] - columns(line[i]), ' ');
      const bool is_last = i + 1 == line.size();
      if (i > 0) out << "  ";
      if (i < to_left.size() && to_left[i]) {
        out << line[i] << (is_last ? "" : blanks);
      } else {
        out << blanks << line[i];
      }
    }
    out << '\n';
  }
}

}  // namespace hydrascope::app
