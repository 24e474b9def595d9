// The formats of results, and what all of them share: how a row is spelled.
#pragma once

#include <initializer_list>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

enum class Format { text, json, jsonl, csv, md, html };
/// The formats of a report (report.h), and the formats of a stream of records, which is no page and no Markdown.
std::vector<std::string> report_formats();
std::vector<std::string> record_formats();
/// `format` if it is not empty, else the extension of `output` (.json, .csv, ...) where it is one of
/// `formats`, else text. Throws Error(invalid_argument) for another word.
Format choose_format(std::string_view format, std::string_view output,
                     const std::vector<std::string>& formats = record_formats());

/// Throws Error(invalid_argument) unless `file`, which `option` named, has one of the `extensions`
/// (".html"): better before an hour of work than after it.
void check_extension(const std::string& file, const std::string& option,
                     std::initializer_list<std::string_view> extensions);

/// One row of csv or md with its line feed. csv quotes as RFC 4180 does (fields with comma, quote or
/// line break, and quotes doubled); md writes `\|`, and control characters as `printable` does. Other
/// bytes are kept, UTF-8 or not.
std::string delimited_row(std::span<const std::string> fields, Format format);
/// The names of the columns; md has its rule below them.
std::string header_row(std::span<const std::string> names, Format format);

}  // namespace hydrascope::app
