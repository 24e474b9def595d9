#include "app/results/classify_record.h"

#include "app/run/terminal_text.h"

#include <algorithm>

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
  const bool is_foreign = code == ErrorCode::invalid_argument;
  return std::string(name(is_foreign ? ErrorCode::internal : code));
}

namespace {
constexpr int kSecondsDecimals = 6;
}

OrderedJson begin_json(const InputRecord& record) {
  OrderedJson object;
  object["schema"] = 2;
  add_path(object, "input", record.input);
  if (record.frame) object["frame"] = *record.frame;
  if (record.time) object["time"] = rounded(decimal(*record.time, kSecondsDecimals));
  if (record.error)
    object["error"] = {{"code", record_error_code(*record.error)}, {"message", record.message}};
  return object;
}

std::string begin_text(const InputRecord& record, bool color) {
  std::string line = styled(printable(record.input), Style::bold, color);
  if (record.frame) line += "  frame " + std::to_string(*record.frame);
  if (record.time) line += " at " + fixed(*record.time, 3) + " s";
  if (!record.error) return line;
  const std::string text =
      "error: " + record_error_code(*record.error) + ": " + printable(record.message);
  return line + "  " + styled(text, Style::red, color) + '\n';
}

namespace {

OrderedJson to_json(const Box& box) {
  return {{"left", box.left}, {"top", box.top}, {"width", box.width}, {"height", box.height}};
}

std::string pad_left(std::string text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string input_line(const ClassifyRecord& record, bool color) {
  std::string line = begin_text(record, color);
  if (record.error) return line;
  line += "  " + sizes_text(record) + "  " + std::to_string(record.tokens) + " tokens";
  if (!record.note.empty()) line += "  " + styled(printable(record.note), Style::dim, color);
  line += "  " + duration(record.seconds);
  if (record.batch_size > 1) line += " each in a batch of " + std::to_string(record.batch_size);
  std::string how;
  for (const std::string* part : {&record.device, &record.precision, &record.attention}) {
    if (!how.empty() && !part->empty()) how += ' ';
    how += printable(*part);
  }
  if (!how.empty()) line += "  " + styled(how, Style::dim, color);
  return line + '\n';
}

/// "224x224+448+336": width x height + left + top.
std::string geometry_text(const Box& box) {
  return std::to_string(box.width) + 'x' + std::to_string(box.height) + '+' +
         std::to_string(box.left) + '+' + std::to_string(box.top);
}

struct TableLine {
  std::string rank;
  std::string percent;
  std::string label;
  std::string remark;  ///< "(n02444819)", "(n02444819)  at 448,336 224x224"
};

TableLine table_line(const Prediction& prediction, LabelType label_type) {
  TableLine line{std::to_string(prediction.rank),
                 fixed(prediction.prob * 100, 2),
                 printable(label_text(prediction, label_type)),
                 {}};
  if (label_type == LabelType::name && !prediction.id.empty())
    line.remark = '(' + printable(prediction.id) + ')';
  if (prediction.box && prediction.mark) {
    const auto& [x, y] = *prediction.mark;
    line.remark += (line.remark.empty() ? "at " : "  at ") + std::to_string(x) + ',' +
                   std::to_string(y) + " in " + geometry_text(*prediction.box);
  }
  return line;
}

}  // namespace

void add_sizes(OrderedJson& object, const InputRecord& record) {
  object["width"] = record.width;
  object["height"] = record.height;
  object["model_size"] = record.model_size;
}

void add_views(OrderedJson& object, const InputRecord& record) {
  if (record.views.empty()) return;
  object["finder"] = record.finder;
  for (const auto& [best, weight] : record.views) {
    OrderedJson& view = object["views"].emplace_back();
    add_class(view, best);
    view["weight"] = rounded(weight);
    add_place(view, best);
  }
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

void add_place(OrderedJson& object, const Prediction& prediction) {
  if (prediction.box) object["box"] = to_json(*prediction.box);
  if (prediction.mark)
    object["mark"] = {{"x", prediction.mark->front()}, {"y", prediction.mark->back()}};
}

void add_end(OrderedJson& object, const InputRecord& record) {
  if (!record.note.empty()) object["note"] = record.note;
  if (!record.notes.empty()) object["notes"] = record.notes;
  object["seconds"] = rounded(decimal(record.seconds, kSecondsDecimals));
}

std::string sizes_text(const InputRecord& record) {
  const auto size = [](std::int64_t height, std::int64_t width) {
    return std::to_string(height) + 'x' + std::to_string(width);
  };
  return size(record.height, record.width) + " -> " +
         (record.views.empty() ? "" : std::to_string(record.views.size()) + " views of ") +
         size(record.model_size[0], record.model_size[1]) + " (HxW)";
}

OrderedJson to_json(const ClassifyRecord& record) {
  constexpr int kLogitDecimals = 4;
  OrderedJson object = begin_json(record);
  if (record.error) return object;
  add_sizes(object, record);
  object["tokens"] = record.tokens;
  if (record.exit_layer) object["exit_layer"] = *record.exit_layer;
  add_views(object, record);
  OrderedJson& top = object["top"] = OrderedJson::array();
  for (const Prediction& prediction : record.top) {
    OrderedJson& one = top.emplace_back();
    one["rank"] = prediction.rank;
    add_class(one, prediction);
    one["logit"] = rounded(decimal(prediction.logit, kLogitDecimals));
    add_place(one, prediction);
  }
  if (record.group)
    object["group"] = {{"label", record.group->name}, {"prob", rounded(record.group->prob)}};
  if (record.unsure) object["unsure"] = true;
  object["device"] = record.device;
  object["precision"] = record.precision;
  add_attention(object, record);
  if (!record.kernels.empty()) object["kernels"] = record.kernels;
  add_end(object, record);
  return object;
}

std::string to_text(const ClassifyRecord& record, LabelType label_type, bool color) {
  std::string text = input_line(record, color);
  if (record.error) return text;

  std::vector<TableLine> lines;
  std::size_t rank_width = 1;
  std::size_t percent_width = 5;  // "93.12"; six only in a block that holds 100.00
  std::size_t label_width = 0;
  // A label longer than this is left out of the alignment instead of pushing all ids to the right.
  constexpr std::size_t kMaxLabelWidth = 40;
  for (const Prediction& prediction : record.top) {
    TableLine& line = lines.emplace_back(table_line(prediction, label_type));
    if (&prediction == &record.top.front()) {
      std::string more = record.unsure ? "unsure" : "";
      if (record.group)
        more = printable(record.group->name) + ' ' + fixed(record.group->prob * 100, 2) + " %";
      if (!more.empty()) line.remark += (line.remark.empty() ? "" : "  ") + more;
    }
    rank_width = std::max(rank_width, line.rank.size());
    percent_width = std::max(percent_width, line.percent.size());
    const std::size_t width = columns(line.label);
    if (width <= kMaxLabelWidth) label_width = std::max(label_width, width);
  }
  for (const TableLine& line : lines) {
    const bool is_first = &line == &lines.front();
    text += "  " + pad_left(line.rank, rank_width) + "  " +
            styled(pad_left(line.percent, percent_width) + " %", Style::green, color && is_first) +
            "  " + styled(line.label, Style::bold, color && is_first);
    if (!line.remark.empty()) {
      const std::size_t width = columns(line.label);
      text.append(width < label_width ? label_width - width : 0, ' ');
      text += "  " + styled(line.remark, Style::dim, color);
    }
    text += '\n';
  }
  if (record.exit_layer)
    text +=
        "  " +
        styled("answered behind layer " + std::to_string(*record.exit_layer), Style::dim, color) +
        '\n';
  return text;
}

}  // namespace hydrascope::app
