#include "app/results/format.h"

#include "app/results/file_extension.h"
#include "app/run/terminal_text.h"
#include "app/run/usage_error.h"
#include "app/run/words.h"

#include <algorithm>
#include <array>
#include <vector>

namespace hydrascope::app {
namespace {

/// In the order of `Format`.
constexpr std::array<std::string_view, 6> kFormats{"text", "json", "jsonl", "csv", "md", "html"};

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char byte : text) {
    if (byte == '"') quoted += '"';
    quoted += byte;
  }
  return quoted + '"';
}

std::string md_field(std::string_view text) {
  std::string escaped;
  for (const char byte : printable(text)) {
    if (byte == '|') escaped += '\\';
    escaped += byte;
  }
  return escaped;
}

}  // namespace

std::vector<std::string> report_formats() { return {kFormats.begin(), kFormats.end()}; }

std::vector<std::string> record_formats() { return {kFormats.begin(), kFormats.end() - 2}; }

Format choose_format(std::string_view format, std::string_view output,
                     const std::vector<std::string>& formats) {
  std::string word(format);
  if (word.empty()) {
    const std::string extension = lower_extension(output);
    word = extension.empty() ? "" : extension.substr(1);
    static constexpr std::array kOthers{"md",   "tsv", "npz",  "html", "svg", "jpg",
                                        "jpeg", "png", "webp", "pdf",  "xlsx"};
    const bool is_known = std::ranges::find(formats, word) != formats.end();
    if (!is_known && std::ranges::find(kOthers, word) != kOthers.end())
      throw UsageError("is no form of these results", "`output` " + std::string(output),
                       "a name that ends in " + join_words(formats, ", ", " or "));
    if (!is_known) return Format::text;
  } else if (std::ranges::find(formats, word) == formats.end()) {
    throw UsageError("unknown format '" + word + "'", "`format`",
                     "one of " + join_words(formats, ", ", ", "));
  }
  return static_cast<Format>(std::ranges::find(kFormats, word) - kFormats.begin());
}

void check_extension(const std::string& file, const std::string& option,
                     std::initializer_list<std::string_view> extensions) {
  if (std::ranges::find(extensions, lower_extension(file)) != extensions.end()) return;
  throw UsageError("expected a file ending in " +
                       join_words({extensions.begin(), extensions.end()}, ", ", " or "),
                   option + " " + file);
}

std::string delimited_row(std::span<const std::string> fields, Format format) {
  const bool is_md = format == Format::md;
  std::string row = is_md ? "| " : "";
  for (std::size_t index = 0; index < fields.size(); ++index) {
    if (index > 0) row += is_md ? " | " : ",";
    row += is_md ? md_field(fields[index]) : csv_field(fields[index]);
  }
  return row + (is_md ? " |\n" : "\n");
}

std::string header_row(std::span<const std::string> names, Format format) {
  std::string row = delimited_row(names, format);
  if (format == Format::md)
    row += delimited_row(std::vector<std::string>(names.size(), "---"), format);
  return row;
}

}  // namespace hydrascope::app
