#include "app/classify_record.h"

#include "app/record_parts.h"
#include "app/terminal_text.h"

#include <algorithm>

namespace hydrascope::app {
namespace {

constexpr int kProbDigits = 6;
constexpr int kLogitDecimals = 4;
constexpr int kSecondsDecimals = 6;

std::string prediction_json(const Prediction& prediction) {
  JsonObject object;
  object.add("rank", prediction.rank)
      .add("index", prediction.index)
      .add("id", json_string(prediction.id))
      .add("label", json_string(prediction.label))
      .add("prob", json_number(significant(prediction.prob, kProbDigits)))
      .add("logit", json_number(decimal(prediction.logit, kLogitDecimals)));
  add_box(object, prediction.box);
  return object.text();
}

std::string duration(double seconds) {
  return seconds < 1 ? fixed(seconds * 1e3, 1) + " ms" : fixed(seconds, 2) + " s";
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
  std::string how;
  for (const std::string* part : {&record.device, &record.precision, &record.attention}) {
    if (!how.empty() && !part->empty()) how += ' ';
    how += printable(*part);
  }
  for (const auto& [key, value] : record.approximations)
    if (key == "keep_tokens") how += " keep-tokens " + value;
  if (!how.empty()) line += "  " + styled(how, Style::dim, color);
  return line + '\n';
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
  if (const std::optional<Box>& box = prediction.box) {
    line.remark += (line.remark.empty() ? "at " : "  at ") + std::to_string(box->left) + ',' +
                   std::to_string(box->top) + ' ' + std::to_string(box->height) + 'x' +
                   std::to_string(box->width);
  }
  return line;
}

}  // namespace

std::string to_json(const ClassifyRecord& record) {
  JsonObject object = begin_json(record);
  if (record.error) return object.text();
  std::string top = "[";
  for (const Prediction& prediction : record.top) {
    if (top.size() > 1) top += ',';
    top += prediction_json(prediction);
  }
  object.add("width", record.width)
      .add("height", record.height)
      .add("model_size", json_array(record.model_size))
      .add("tokens", record.tokens);
  add_views(object, record);
  object.add("top", top + ']')
      .add("device", json_string(record.device))
      .add("precision", json_string(record.precision))
      .add("attention", json_string(record.attention));
  if (!record.attention_options.empty())
    object.add("attention_options", json_object(record.attention_options));
  if (!record.approximations.empty())
    object.add("approximations", json_object(record.approximations));
  if (!record.kernels.empty()) object.add("kernels", json_string(record.kernels));
  if (!record.note.empty()) object.add("note", json_string(record.note));
  return object.add("seconds", json_number(decimal(record.seconds, kSecondsDecimals))).text();
}

std::vector<std::string> classify_columns() {
  return {"input",
          "frame",
          "width",
          "height",
          "model_height",
          "model_width",
          "tokens",
          "views",
          "num_views",
          "rank",
          "index",
          "id",
          "label",
          "prob",
          "logit",
          "box_left",
          "box_top",
          "box_width",
          "box_height",
          "device",
          "precision",
          "attention",
          "attention_options",
          "approximations",
          "kernels",
          "note",
          "seconds",
          "error_code",
          "error_message"};
}

std::vector<std::vector<std::string>> to_rows(const ClassifyRecord& record) {
  const std::string frame = record.frame ? std::to_string(*record.frame) : "";
  if (record.error) {
    std::vector<std::string> row(classify_columns().size());
    row[0] = record.input;
    row[1] = frame;
    row[row.size() - 2] = record_error_code(*record.error);
    row[row.size() - 1] = record.message;
    return {row};
  }
  const std::vector<std::string> picture{
      record.input,
      frame,
      std::to_string(record.width),
      std::to_string(record.height),
      std::to_string(record.model_size[0]),
      std::to_string(record.model_size[1]),
      std::to_string(record.tokens),
      record.views,
      record.views.empty() ? "" : std::to_string(record.num_views)};
  const std::vector<std::string> run{
      record.device,
      record.precision,
      record.attention,
      record.attention_options.empty() ? "" : json_object(record.attention_options),
      record.approximations.empty() ? "" : json_object(record.approximations),
      record.kernels,
      record.note,
      decimal(record.seconds, kSecondsDecimals),
      "",
      ""};
  std::vector<std::vector<std::string>> rows;
  for (const Prediction& prediction : record.top) {
    std::vector<std::string>& row = rows.emplace_back(picture);
    row.insert(row.end(),
               {std::to_string(prediction.rank), std::to_string(prediction.index), prediction.id,
                prediction.label, significant(prediction.prob, kProbDigits),
                decimal(prediction.logit, kLogitDecimals)});
    const std::vector<std::string> box = box_cells(prediction.box);
    row.insert(row.end(), box.begin(), box.end());
    row.insert(row.end(), run.begin(), run.end());
  }
  return rows;
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
    const TableLine& line = lines.emplace_back(table_line(prediction, label_type));
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
  return text;
}

}  // namespace hydrascope::app
