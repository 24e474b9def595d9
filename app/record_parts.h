// What the records of `classify` and of `visualize` begin with: whose they are, or why there is no
// more to say. `Record` has input, frame, error and message.
#pragma once

#include "app/report.h"
#include "app/terminal_text.h"

#include <cstdint>
#include <string>

namespace hydrascope::app {

/// {"schema":1,"input":...,"frame":...}; a failed input's has its error, and is complete.
template <class Record>
JsonObject begin_json(const Record& record) {
  JsonObject object;
  object.add("schema", 1).add_path("input", record.input);
  if (record.frame) object.add("frame", *record.frame);
  if (record.error) {
    JsonObject error;
    error.add("code", json_string(record_error_code(*record.error)))
        .add("message", json_string(record.message));
    object.add("error", error.text());
  }
  return object;
}

/// The same for people; a failed input's is a whole line.
template <class Record>
std::string begin_text(const Record& record, bool color) {
  std::string line = styled(printable(record.input), Style::bold, color);
  if (record.frame) line += "  frame " + std::to_string(*record.frame);
  if (!record.error) return line;
  const std::string text =
      "error: " + record_error_code(*record.error) + ": " + printable(record.message);
  return line + "  " + styled(text, Style::red, color) + '\n';
}

/// "2160x3840 -> 224x224 (HxW)": of the picture and of what the model saw.
template <class Record>
std::string sizes_text(const Record& record) {
  const auto size = [](std::int64_t height, std::int64_t width) {
    return std::to_string(height) + 'x' + std::to_string(width);
  };
  return size(record.height, record.width) + " -> " +
         size(record.model_size[0], record.model_size[1]) + " (HxW)";
}

}  // namespace hydrascope::app
