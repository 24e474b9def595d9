// The formats of results, and what all of them share: how a row is spelled, how a stream is flushed.
#pragma once

#include <ostream>
#include <span>
#include <string>
#include <string_view>

namespace hydrascope::app {

enum class Format { text, json, jsonl, csv, tsv, md };
/// `--format` if it is not empty, else the extension of `output` (.json .jsonl .csv .tsv), else
/// text. Throws Error(invalid_argument) for another word.
Format choose_format(std::string_view format, std::string_view output);
/// Whether it holds a table and nothing beside it.
inline bool is_rows(Format format) { return format == Format::csv || format == Format::tsv; }
inline bool is_json(Format format) { return format == Format::json || format == Format::jsonl; }

/// "jsonl".
std::string_view format_name(Format format);

/// One row of csv, tsv or md with its line feed. csv quotes as RFC 4180 does (fields with comma,
/// quote or line break, and quotes doubled); tsv writes `\t`, `\n`, `\r`, `\\` for tab, line feed,
/// carriage return, backslash; md `\|`. Other bytes are kept, UTF-8 or not.
std::string delimited_row(std::span<const std::string> fields, Format format);
/// The names of the columns; md has its rule below them.
std::string header_row(std::span<const std::string> names, Format format);

/// Gives `out`, which lives no longer than `place`, the name that messages use: "--output x.csv".
void name_stream(std::ostream& out, const std::string& place);
/// Flushes `out`; throws Error(unwritable) with its name, else "standard output", if that, or a
/// write before, did not succeed.
void flush_results(std::ostream& out);

}  // namespace hydrascope::app
