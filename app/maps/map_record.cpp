#include "app/maps/map_record.h"

#include "app/run/terminal_text.h"

#include <algorithm>
#include <vector>

namespace hydrascope::app {
namespace {

std::string class_text(const Prediction& prediction, LabelType label_type, int decimals) {
  return printable(label_text(prediction, label_type)) + " " +
         fixed(prediction.prob * 100, decimals) + " %";
}

/// "memory 41.2 %  ", or "" without one.
std::string memory_text(const MapRecord& record) {
  return record.memory_share ? "memory " + fixed(*record.memory_share * 100, 1) + " %  " : "";
}

}  // namespace

OrderedJson to_json(const MapRecord& record) {
  constexpr int kShareDecimals = 4;
  OrderedJson object = begin_json(record);
  if (record.error) return object;
  OrderedJson& of_class = object["class"];
  add_class(of_class, record.of_class);
  add_place(of_class, record.of_class);
  object["method"] = record.method;
  object["layer"] = record.layer;
  if (record.head != "mean") object["head"] = record.head;
  object["grid"] = record.grid;
  object["min"] = rounded(record.minimum);
  object["max"] = rounded(record.maximum);
  object["cls_share"] = rounded(decimal(record.cls_share, kShareDecimals));
  if (record.memory_share)
    object["memory_share"] = rounded(decimal(*record.memory_share, kShareDecimals));
  if (!record.heatmap_file.empty()) {
    OrderedJson& files = object["files"];
    add_path(files, "heatmap", record.heatmap_file);
    if (!record.map_file.empty()) add_path(files, "map", record.map_file);
  }
  add_sizes(object, record);
  add_views(object, record);
  add_attention(object, record);
  object["device"] = record.device;
  object["precision"] = record.precision;
  add_end(object, record);
  return object;
}

std::string map_columns(bool remembers) {
  std::string columns(kMapColumns);
  constexpr std::string_view kBefore = " cls_share";
  if (remembers) columns.insert(columns.find(kBefore) + kBefore.size(), " memory_share");
  return columns;
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
  line += maps.size() > 1 ? std::to_string(maps.size()) + " maps " : memory_text(first);
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
          " %  " + memory_text(record) + fixed(record.seconds * kMilliseconds, 1) + " ms  " +
          printable(record.heatmap_file);
  if (!record.map_file.empty()) line += "  " + printable(record.map_file);
  if (!record.note.empty()) line += "  " + styled(printable(record.note), Style::dim, color);
  return line + '\n';
}

}  // namespace hydrascope::app
