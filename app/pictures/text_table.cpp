#include "app/pictures/text_table.h"

#include "app/pictures/class_words.h"
#include "app/run/usage_error.h"
#include "kernels/input_file.h"

#include <algorithm>
#include <optional>

namespace hydrascope::app {

namespace {

void append_utf8(std::string& text, std::uint32_t code) {
  const auto tail = [&](int shift) {
    text += static_cast<char>(0x80U | ((code >> static_cast<unsigned>(shift)) & 0x3FU));
  };
  if (code < 0x80U) {
    text += static_cast<char>(code);
  } else if (code < 0x800U) {
    text += static_cast<char>(0xC0U | (code >> 6U));
    tail(0);
  } else if (code < 0x10000U) {
    text += static_cast<char>(0xE0U | (code >> 12U));
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0U | (code >> 18U));
    tail(12);
    tail(6);
    tail(0);
  }
}

/// Nothing where `bytes` are no UTF-16.
std::optional<std::string> utf8_of_utf16(std::string_view bytes, bool is_big_endian) {
  if (bytes.size() % 2 != 0) return std::nullopt;
  const auto unit_at = [&](std::size_t at) {
    const auto first = static_cast<unsigned char>(bytes[at]);
    const auto second = static_cast<unsigned char>(bytes[at + 1]);
    return is_big_endian ? first << 8U | second : second << 8U | first;
  };
  const auto is_between = [](std::uint32_t code, std::uint32_t begin, std::uint32_t end) {
    return code >= begin && code < end;
  };
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 2) {
    std::uint32_t code = unit_at(at);
    if (is_between(code, 0xDC00, 0xE000)) return std::nullopt;
    if (is_between(code, 0xD800, 0xDC00)) {
      at += 2;
      if (at >= bytes.size() || !is_between(unit_at(at), 0xDC00, 0xE000)) return std::nullopt;
      code = 0x10000U + ((code - 0xD800U) << 10U) + (unit_at(at) - 0xDC00U);
    }
    append_utf8(text, code);
  }
  return text;
}

}  // namespace

std::string read_table_text(const std::filesystem::path& file, const std::string& subject) {
  InputFile stream(file);
  if (!stream) throw UsageError("cannot be read", subject);
  std::string text = stream.text();
  if (text.empty()) throw UsageError("the file is empty", subject);
  for (const std::string_view mark :
       {std::string_view("\xFF\xFE\0\0", 4), std::string_view("\0\0\xFE\xFF", 4)}) {
    if (text.starts_with(mark))
      throw UsageError("the file is in UTF-32, which is not read", subject, "save it in UTF-8");
  }
  constexpr std::string_view kZero("\0", 1);
  const std::string_view begin = std::string_view(text).substr(0, 2);
  const bool is_little = begin == "\xFF\xFE" || (begin.substr(1) == kZero && begin[0] != '\0');
  const bool is_big = begin == "\xFE\xFF" || (begin.substr(0, 1) == kZero && begin.size() == 2);
  if (is_little || is_big) {
    if (auto converted = utf8_of_utf16(text, is_big)) text = std::move(*converted);
  }
  if (constexpr std::string_view kMark = "\xEF\xBB\xBF"; text.starts_with(kMark))
    text.erase(0, kMark.size());
  if (text.find('\0') != std::string::npos) {
    throw UsageError("the file holds zero bytes: it is no plain text", subject,
                     "a spreadsheet is saved as CSV");
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
