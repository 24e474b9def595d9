#include "app/results/record.h"

#include "app/run/terminal_text.h"

namespace hydrascope::app {

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

OrderedJson begin_json(const InputRecord& record) {
  OrderedJson object;
  object["schema"] = 1;
  add_path(object, "input", record.input);
  if (record.frame) object["frame"] = *record.frame;
  if (record.error)
    object["error"] = {{"code", record_error_code(*record.error)}, {"message", record.message}};
  return object;
}

std::string begin_text(const InputRecord& record, bool color) {
  std::string line = styled(printable(record.input), Style::bold, color);
  if (record.frame) line += "  frame " + std::to_string(*record.frame);
  if (!record.error) return line;
  const std::string text =
      "error: " + record_error_code(*record.error) + ": " + printable(record.message);
  return line + "  " + styled(text, Style::red, color) + '\n';
}

void add_sizes(OrderedJson& object, const InputRecord& record) {
  object["width"] = record.width;
  object["height"] = record.height;
  object["model_size"] = record.model_size;
}

void add_views(OrderedJson& object, const InputRecord& record) {
  if (record.views.empty()) return;
  object["views"] = record.views;
  object["num_views"] = record.num_views;
}

void add_attention(OrderedJson& object, const InputRecord& record) {
  object["attention"] = record.attention;
  if (!record.attention_options.empty()) object["attention_options"] = record.attention_options;
  if (!record.approximations.empty()) object["approximations"] = record.approximations;
}

void add_class(OrderedJson& object, const Prediction& prediction) {
  object["index"] = prediction.index;
  object["id"] = prediction.id;
  object["label"] = prediction.label;
  object["prob"] = rounded(prediction.prob);
}

void add_box(OrderedJson& object, const Prediction& prediction) {
  if (!prediction.box) return;
  const Box& box = *prediction.box;
  object["box"] = {
      {"left", box.left}, {"top", box.top}, {"width", box.width}, {"height", box.height}};
}

void add_end(OrderedJson& object, const InputRecord& record) {
  constexpr int kSecondsDecimals = 6;
  if (!record.note.empty()) object["note"] = record.note;
  object["seconds"] = rounded(decimal(record.seconds, kSecondsDecimals));
}

std::string sizes_text(const InputRecord& record) {
  const auto size = [](std::int64_t height, std::int64_t width) {
    return std::to_string(height) + 'x' + std::to_string(width);
  };
  return size(record.height, record.width) + " -> " +
         (record.views.empty() ? "" : std::to_string(record.num_views) + " of ") +
         size(record.model_size[0], record.model_size[1]) + " (HxW)";
}

}  // namespace hydrascope::app
