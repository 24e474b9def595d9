// What the records of `classify` and of `visualize` begin with: whose they are, or why there is no
// more to say. `Record` has input, frame, error and message.
#pragma once

#include "app/report.h"
#include "app/terminal_text.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

/// "tiles" and their number, where the picture was more than one view.
template <class Record>
void add_views(JsonObject& object, const Record& record) {
  if (!record.views.empty())
    object.add("views", json_string(record.views)).add("num_views", record.num_views);
}

/// Where a class was found, if that is a part of the picture.
inline void add_box(JsonObject& object, const std::optional<Box>& box) {
  if (!box) return;
  object.add("box", JsonObject()
                        .add("left", box->left)
                        .add("top", box->top)
                        .add("width", box->width)
                        .add("height", box->height)
                        .text());
}

/// The same in cells: left, top, width, height.
inline std::vector<std::string> box_cells(const std::optional<Box>& box) {
  if (!box) return std::vector<std::string>(4);
  return {std::to_string(box->left), std::to_string(box->top), std::to_string(box->width),
          std::to_string(box->height)};
}

/// "2160x3840 -> 224x224 (HxW)", "2160x3840 -> 299 of 224x224 (HxW)": of the picture and of what
/// the model saw.
template <class Record>
std::string sizes_text(const Record& record) {
  const auto size = [](std::int64_t height, std::int64_t width) {
    return std::to_string(height) + 'x' + std::to_string(width);
  };
  return size(record.height, record.width) + " -> " +
         (record.views.empty() ? "" : std::to_string(record.num_views) + " of ") +
         size(record.model_size[0], record.model_size[1]) + " (HxW)";
}

}  // namespace hydrascope::app
