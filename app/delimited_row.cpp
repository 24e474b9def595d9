#include "app/delimited_row.h"

#include <string_view>

namespace hydrascope::app {
namespace {

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

}  // namespace

std::string delimited_row(std::span<const std::string> fields, Format format) {
  const char separator = format == Format::tsv ? '\t' : ',';
  std::string row;
  for (std::size_t index = 0; index < fields.size(); ++index) {
    if (index > 0) row += separator;
    row += format == Format::tsv ? tsv_field(fields[index]) : csv_field(fields[index]);
  }
  return row + '\n';
}

}  // namespace hydrascope::app
