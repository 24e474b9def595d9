#include "app/results/format.h"

#include "app/pictures/file_extension.h"
#include "app/run/usage_error.h"
#include "kernels/limits.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <ios>
#include <optional>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace hydrascope::app {
namespace {

constexpr std::array<std::pair<std::string_view, Format>, 6> kFormats{{{"text", Format::text},
                                                                       {"json", Format::json},
                                                                       {"jsonl", Format::jsonl},
                                                                       {"csv", Format::csv},
                                                                       {"tsv", Format::tsv},
                                                                       {"md", Format::md}}};

std::optional<Format> find_format(std::string_view word) {
  for (const auto& [known, format] : kFormats) {
    if (known == word) return format;
  }
  return std::nullopt;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char byte : text) {
    if (byte == '"') quoted += '"';
    quoted += byte;
  }
  return quoted + '"';
}

std::string tsv_field(std::string_view text) {
  std::string escaped;
  for (const char byte : text) {
    switch (byte) {
      case '\t': escaped += "\\t"; break;
      case '\n': escaped += "\\n"; break;
      case '\r': escaped += "\\r"; break;
      case '\\': escaped += "\\\\"; break;
      default: escaped += byte;
    }
  }
  return escaped;
}

std::string md_field(std::string_view text) {
  std::string escaped;
  for (const char byte : text) {
    if (byte == '|') escaped += '\\';
    escaped += byte;
  }
  return escaped;
}

}  // namespace

Format choose_format(std::string_view format, std::string_view output) {
  if (!format.empty()) {
    if (const auto found = find_format(format)) return *found;
    throw UsageError("unknown format '" + std::string(format) + "'", "--format",
                     "one of text, json, jsonl, csv, tsv");
  }
  const std::string extension = lower_extension(output);
  // Only benchmark offers md.
  if (extension.empty() || extension == ".md") return Format::text;
  return find_format(std::string_view(extension).substr(1)).value_or(Format::text);
}

std::string_view format_name(Format format) {
  return std::ranges::find(kFormats, format, &decltype(kFormats)::value_type::second)->first;
}

std::string delimited_row(std::span<const std::string> fields, Format format) {
  const bool is_md = format == Format::md;
  std::string row = is_md ? "| " : "";
  for (std::size_t index = 0; index < fields.size(); ++index) {
    if (index > 0) row += is_md ? " | " : format == Format::tsv ? "\t" : ",";
    row += is_md                   ? md_field(fields[index])
           : format == Format::tsv ? tsv_field(fields[index])
                                   : csv_field(fields[index]);
  }
  return row + (is_md ? " |\n" : "\n");
}

std::string header_row(std::span<const std::string> names, Format format) {
  std::string row = delimited_row(names, format);
  if (format == Format::md)
    row += delimited_row(std::vector<std::string>(names.size(), "---"), format);
  return row;
}

namespace {

/// The slot in which a stream keeps the address of its name.
int name_slot() {
  static const int slot = std::ios_base::xalloc();
  return slot;
}

/// `error` is errno, which may be of another call: the write that failed may be long ago. Mostly it
/// is a full disk.
std::string why_not_written(int error) {
  const std::string limit = hint_of_write(EFBIG);
  if (error == EFBIG && !limit.empty()) return limit;
  for (const int known : {EDQUOT, EFBIG, EIO, EPIPE})
    if (error == known) return std::generic_category().message(error);
  return "is there space left on the disk?" + (limit.empty() ? "" : " " + limit);
}

}  // namespace

void name_stream(std::ostream& out, const std::string& place) {
  out.pword(name_slot()) = const_cast<std::string*>(&place);
}

void flush_results(std::ostream& out) {
  if (out) errno = 0;
  out.flush();
  if (out) return;
  const int error = errno;
  const auto* const place = static_cast<const std::string*>(out.pword(name_slot()));
  // A stream that was closed can only be read (fill_closed_streams).
  const bool is_closed =
      place == nullptr && (::fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY;
  throw Error(ErrorCode::unwritable, "not everything could be written",
              place == nullptr ? "standard output" : *place,
              is_closed ? "standard output is closed" : why_not_written(error));
}

}  // namespace hydrascope::app
