#include "app/visualize/map_record.h"

#include "app/record_parts.h"
#include "app/terminal_text.h"

#include <algorithm>

namespace hydrascope::app {
namespace {

constexpr int kMapDigits = 6;
constexpr int kShareDecimals = 4;
constexpr int kMapSecondsDecimals = 6;

std::string class_json(const Prediction& prediction) {
  JsonObject object;
  object.add("index", prediction.index)
      .add("id", json_string(prediction.id))
      .add("label", json_string(prediction.label))
      .add("prob", json_number(significant(prediction.prob, kMapDigits)));
  add_box(object, prediction.box);
  return object.text();
}

std::string class_text(const Prediction& prediction, LabelType label_type, int decimals) {
  return printable(label_text(prediction, label_type)) + " " +
         fixed(prediction.prob * 100, decimals) + " %";
}

}  // namespace

std::string to_json(const MapRecord& record) {
  JsonObject object = begin_json(record);
  if (record.error) return object.text();
  object.add("class", class_json(record.of_class))
      .add("method", json_string(record.method))
      .add("layer", record.layer);
  if (record.head != "mean") object.add("head", json_string(record.head));
  JsonObject files;
  files.add_path("heatmap", record.heatmap_file);
  if (!record.map_file.empty()) files.add_path("map", record.map_file);
  object.add("grid", json_array(record.grid))
      .add("min", json_number(significant(record.minimum, kMapDigits)))
      .add("max", json_number(significant(record.maximum, kMapDigits)))
      .add("cls_share", json_number(decimal(record.cls_share, kShareDecimals)))
      .add("files", files.text())
      .add("width", record.width)
      .add("height", record.height)
      .add("model_size", json_array(record.model_size));
  add_views(object, record);
  object.add("attention", json_string(record.attention));
  if (!record.attention_options.empty())
    object.add("attention_options", json_object(record.attention_options));
  if (!record.approximations.empty())
    object.add("approximations", json_object(record.approximations));
  object.add("device", json_string(record.device)).add("precision", json_string(record.precision));
  if (!record.note.empty()) object.add("note", json_string(record.note));
  return object.add("seconds", json_number(decimal(record.seconds, kMapSecondsDecimals))).text();
}

std::vector<std::string> map_columns() {
  return {"input",
          "frame",
          "index",
          "id",
          "label",
          "prob",
          "box_left",
          "box_top",
          "box_width",
          "box_height",
          "method",
          "layer",
          "head",
          "rows",
          "columns",
          "min",
          "max",
          "cls_share",
          "heatmap",
          "map",
          "width",
          "height",
          "model_height",
          "model_width",
          "views",
          "num_views",
          "attention",
          "attention_options",
          "approximations",
          "device",
          "precision",
          "note",
          "seconds",
          "error_code",
          "error_message"};
}

std::vector<std::string> to_row(const MapRecord& record) {
  const std::string frame = record.frame ? std::to_string(*record.frame) : "";
  if (record.error) {
    std::vector<std::string> row(map_columns().size());
    row[0] = record.input;
    row[1] = frame;
    row[row.size() - 2] = record_error_code(*record.error);
    row[row.size() - 1] = record.message;
    return row;
  }
  const std::vector<std::string> box = box_cells(record.of_class.box);
  return {record.input,
          frame,
          std::to_string(record.of_class.index),
          record.of_class.id,
          record.of_class.label,
          significant(record.of_class.prob, kMapDigits),
          box[0],
          box[1],
          box[2],
          box[3],
          record.method,
          std::to_string(record.layer),
          record.head,
          std::to_string(record.grid[0]),
          std::to_string(record.grid[1]),
          significant(record.minimum, kMapDigits),
          significant(record.maximum, kMapDigits),
          decimal(record.cls_share, kShareDecimals),
          record.heatmap_file,
          record.map_file,
          std::to_string(record.width),
          std::to_string(record.height),
          std::to_string(record.model_size[0]),
          std::to_string(record.model_size[1]),
          record.views,
          record.views.empty() ? "" : std::to_string(record.num_views),
          record.attention,
          record.attention_options.empty() ? "" : json_object(record.attention_options),
          record.approximations.empty() ? "" : json_object(record.approximations),
          record.device,
          record.precision,
          record.note,
          decimal(record.seconds, kMapSecondsDecimals),
          "",
          ""};
}

std::string to_text(std::span<const MapRecord> maps, LabelType label_type, bool color) {
  const MapRecord& first = maps.front();
  std::string line = begin_text(first, color);
  if (first.error) return line;
  std::string classes;
  std::vector<std::int64_t> named;
  for (const MapRecord& map : maps) {
    if (std::ranges::find(named, map.of_class.index) != named.end()) continue;
    named.push_back(map.of_class.index);
    classes += (classes.empty() ? "" : ", ") + class_text(map.of_class, label_type, 1);
  }
  line += "  " + styled(classes, Style::green, color) + "  ";
  if (maps.size() > 1) line += std::to_string(maps.size()) + " maps ";
  line += "-> " + printable(first.heatmap_file);
  if (!first.map_file.empty()) line += ", " + printable(first.map_file);
  return line + '\n';
}

std::string to_verbose_text(const MapRecord& record, LabelType label_type, bool color) {
  std::string line = begin_text(record, color);
  if (record.error) return line;
  constexpr int kTextDigits = 3;
  constexpr double kMilliseconds = 1e3;
  line += "  " + sizes_text(record) + "  " +
          styled(class_text(record.of_class, label_type, 2), Style::green, color) + "  " +
          record.method + " layer " + std::to_string(record.layer);
  if (record.head != "mean") line += " head " + record.head;
  line += "  " + std::to_string(record.grid[0]) + 'x' + std::to_string(record.grid[1]) + "  " +
          significant(record.minimum, kTextDigits) + ".." +
          significant(record.maximum, kTextDigits) + "  cls " + fixed(record.cls_share * 100, 1) +
          " %  " + fixed(record.seconds * kMilliseconds, 1) + " ms  " +
          printable(record.heatmap_file);
  if (!record.map_file.empty()) line += "  " + printable(record.map_file);
  if (!record.note.empty()) line += "  " + styled(printable(record.note), Style::dim, color);
  return line + '\n';
}

}  // namespace hydrascope::app
