#include "app/report.h"

#include "app/delimited_row.h"
#include "app/file_extension.h"
#include "app/terminal_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace hydrascope::app {
namespace {

struct FormatName {
  std::string_view word;
  Format format;
};
constexpr std::array<FormatName, 5> kFormats{{{"text", Format::text},
                                              {"json", Format::json},
                                              {"jsonl", Format::jsonl},
                                              {"csv", Format::csv},
                                              {"tsv", Format::tsv}}};

constexpr std::string_view kSchemaKey = "schema";

std::optional<Format> find_format(std::string_view word) {
  for (const auto& [known, format] : kFormats) {
    if (known == word) return format;
  }
  return std::nullopt;
}

std::string in_words(std::string key) {
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

}  // namespace

Format choose_format(std::string_view format, std::string_view output) {
  if (!format.empty()) {
    if (const auto found = find_format(format)) return *found;
    throw Error(ErrorCode::invalid_argument, "unknown format '" + std::string(format) + "'",
                "--format", "one of text, json, jsonl, csv, tsv");
  }
  const std::string extension = lower_extension(output);
  if (extension.empty()) return Format::text;
  return find_format(std::string_view(extension).substr(1)).value_or(Format::text);
}

LabelType parse_label_type(std::string_view word) {
  if (word == "id") return LabelType::id;
  if (word == "index") return LabelType::index;
  return LabelType::name;
}

std::string label_text(const Prediction& prediction, LabelType label_type) {
  if (label_type == LabelType::index) return std::to_string(prediction.index);
  if (label_type == LabelType::id && !prediction.id.empty()) return prediction.id;
  return prediction.label;
}

std::string record_error_code(ErrorCode code) {
  const bool is_foreign = code == ErrorCode::invalid_argument || code == ErrorCode::failed;
  return std::string(name(is_foreign ? ErrorCode::internal : code));
}

void flush_results(std::ostream& out) {
  errno = 0;
  out.flush();
  if (!out)
    throw Error(ErrorCode::failed, "cannot write the results", "output", why_not_written(errno));
}

std::string why_not_written(int error) {
  // The write that failed may be long ago, and mostly it is a full disk.
  if (error == 0 || error == ENOSPC) return "is there space left on the disk?";
  if (error == EBADF) return "standard output is closed";
  return std::generic_category().message(error);
}

void KeyValueReport::add(std::string key, std::string value) {
  fields_.push_back({std::move(key), json_string(value), printable(value), value});
}

void KeyValueReport::add(std::string key, std::string_view value) {
  add(std::move(key), std::string(value));
}

void KeyValueReport::add(std::string key, const char* value) {
  add(std::move(key), std::string(value));
}

void KeyValueReport::add(std::string key, double value, int text_decimals) {
  constexpr int kDigits = 6;
  std::string number = significant(value, kDigits);
  fields_.push_back({std::move(key), json_number(number), fixed(value, text_decimals), number});
}

void KeyValueReport::add(std::string key, std::int64_t value) {
  if (key == kSchemaKey) {
    schema_ = value;
    return;
  }
  const std::string number = std::to_string(value);
  fields_.push_back({std::move(key), number, number, number});
}

void KeyValueReport::add(std::string key, bool value) {
  const std::string word = value ? "true" : "false";
  fields_.push_back({std::move(key), word, value ? "yes" : "no", word});
}

void KeyValueReport::add_size(std::string key, std::int64_t height, std::int64_t width) {
  std::string json = json_array(std::array{height, width});
  fields_.push_back({std::move(key), json,
                     std::to_string(height) + 'x' + std::to_string(width) + " (HxW)", json});
}

void KeyValueReport::add_nothing(std::string key) {
  fields_.push_back({std::move(key), "null", "-", ""});
}

void KeyValueReport::add_json(std::string key, std::string json) {
  if (!nlohmann::json::accept(json)) {
    throw Error(ErrorCode::internal, "the value of '" + key + "' is not JSON: " + json, key);
  }
  fields_.push_back({std::move(key), json, printable(json), json});
}

void KeyValueReport::write(Format format, std::ostream& out) const {
  if (format == Format::json || format == Format::jsonl) {
    JsonObject object;
    object.add(kSchemaKey, schema_);
    for (const Field& field : fields_) object.add(field.key, field.json);
    out << object.text(format == Format::json ? 2 : 0) << '\n';
  } else if (format == Format::text) {
    std::size_t width = 0;
    for (const Field& field : fields_) width = std::max(width, columns(field.key));
    for (const Field& field : fields_) {
      const std::string padding(width - columns(field.key) + 2, ' ');
      out << in_words(field.key) << padding << field.text << '\n';
    }
  } else {
    std::vector<std::string> keys;
    std::vector<std::string> cells;
    for (const Field& field : fields_) {
      keys.push_back(field.key);
      cells.push_back(field.cell);
    }
    out << delimited_row(keys, format) << delimited_row(cells, format);
  }
  flush_results(out);
}

}  // namespace hydrascope::app
