// A table in a text file: UTF-8, cells between delimiters, quotes as in RFC 4180.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

struct TableRow {
  std::int64_t number = 0;  ///< from 1, blank rows counted
  std::vector<std::string> cells;
};

/// The file's text without a byte order mark. Throws Error(invalid_argument) with `subject` for a
/// file that cannot be read or is no text.
std::string read_table_text(const std::filesystem::path& file, const std::string& subject);

/// The rows that hold anything, at most `limit`. Lines end in LF, CRLF or CR; quoted cells may hold
/// delimiters, doubled quotes and line ends; blanks around cells are dropped. A blank as the
/// delimiter stands for any number of blanks. Throws Error(invalid_argument) with `subject` for a
/// quote without an end.
std::vector<TableRow> split_table(std::string_view text, char delimiter, const std::string& subject,
                                  std::size_t limit = SIZE_MAX);

}  // namespace hydrascope::app
