#include "app/pictures/text_table.h"

#include "app/pictures/class_words.h"
#include "app/run/usage_error.h"
#include "kernels/input_file.h"

#include <algorithm>

namespace hydrascope::app {

std::string read_table_text(const std::filesystem::path& file, const std::string& subject) {
  InputFile stream(file);
  if (!stream) throw UsageError("cannot be read", subject);
  std::string text = stream.text();
  if (text.empty()) throw UsageError("the file is empty", subject);
  if (constexpr std::string_view kMark = "\xEF\xBB\xBF"; text.starts_with(kMark))
    text.erase(0, kMark.size());
  if (text.find('\0') != std::string::npos) {
    throw UsageError("the file holds zero bytes: it is no text in UTF-8", subject,
                     "a spreadsheet is saved as CSV in UTF-8");
  }
  return text;
}

std::vector<TableRow> split_table(std::string_view text, char delimiter, const std::string& subject,
                                  std::size_t limit) {
  std::vector<TableRow> rows;
  TableRow row{1, {""}};
  enum class Cell { plain, quoted, closed } cell = Cell::plain;
  const auto end_cell = [&] {
    if (cell == Cell::plain) row.cells.back() = without_blanks(row.cells.back());
    cell = Cell::plain;
  };
  const auto end_row = [&] {
    end_cell();
    const bool holds_any =
        std::ranges::any_of(row.cells, [](const std::string& each) { return !each.empty(); });
    const std::int64_t next = row.number + 1;
    if (holds_any) rows.push_back(std::move(row));
    row = {next, {""}};
  };
  for (std::size_t i = 0; i < text.size() && rows.size() < limit; ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (cell == Cell::quoted) {
      if (c != '"') {
        row.cells.back() += c;
      } else if (next == '"') {
        row.cells.back() += text[++i];
      } else {
        cell = Cell::closed;
      }
    } else if (c == '\n' || c == '\r') {
      if (c == '\r' && next == '\n') ++i;
      end_row();
    } else if (c == delimiter) {
      // A row of blanks is one delimiter, and none at the ends of a line.
      const bool is_first = cell == Cell::plain && row.cells.back().empty();
      const bool is_last = next == ' ' || next == '\r' || next == '\n' || next == '\0';
      if (c == ' ' && (is_first || is_last)) continue;
      end_cell();
      row.cells.emplace_back();
    } else if (c == '"' && cell == Cell::plain && without_blanks(row.cells.back()).empty()) {
      row.cells.back().clear();
      cell = Cell::quoted;
    } else if (cell == Cell::plain || !without_blanks({&c, 1}).empty()) {
      row.cells.back() += c;
    }
  }
  if (cell == Cell::quoted) {
    throw UsageError("a quoted cell has no end", subject + ", row " + std::to_string(row.number));
  }
  if (rows.size() < limit) end_row();
  return rows;
}

}  // namespace hydrascope::app
