// The record of a map: schema 2 of `visualize`.
#pragma once

#include "app/results/classify_record.h"
#include "app/results/table.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace hydrascope::app {

/// The fields are the same if the numbers of several maps are: an input with several maps
/// has a record of each.
struct MapRecord : InputRecord {  ///< its seconds: of the model and all maps of the input
  Prediction of_class;
  std::string method;
  std::int64_t layer = 0;
  std::string head = "mean";           ///< the field is left out of JSON for "mean"
  std::array<std::int64_t, 2> grid{};  ///< rows, columns
  double minimum = 0;                  ///< of the raw map
  double maximum = 0;
  double cls_share = 0;  ///< the class token's own share of the heat
  /// `model::explain::memory_share`; nothing without a memory, then the field is left out.
  std::optional<double> memory_share = {};
  std::string heatmap_file;  ///< as written; "" where nothing is, then the field is left out
  std::string map_file;      ///< "" without --save-raw; then the field is left out
};

/// Minimum and maximum have six significant digits, null where the map holds no number.
OrderedJson to_json(const MapRecord& record);
inline constexpr std::string_view kMapColumns =
    "input frame time index=/class/index id=/class/id label=/class/label prob=/class/prob "
    "box_left=/class/box/left box_top=/class/box/top box_width=/class/box/width "
    "box_height=/class/box/height method layer head?mean rows=/grid/0 "
    "columns=/grid/1 min max cls_share heatmap=/files/heatmap map=/files/map width "
    "height model_height=/model_size/0 model_width=/model_size/1 "
    "attention attention_options approximations device precision note seconds "
    "error_code=/error/code error_message=/error/message";
/// The columns of records without a memory, or with one.
std::string map_columns(bool remembers);
/// The text for people: one line for all maps of an input, which name its file and its classes.
///
///     otters.jpg  otter 67.5 %  -> heatmaps/otters.heatmap.png
///     otters.jpg  otter 67.5 %, beaver 4.7 %  24 maps -> heatmaps/otters.heatmap.png
///     clip.mp4  frame 25 at 1.000 s  otter 67.5 %  memory 41.2 %  -> heatmaps/clip.heatmap.mp4
///
/// Several maps have a memory's share each, which the line leaves to the records.
std::string to_text(std::span<const MapRecord> maps, LabelType label_type, bool color);
/// All of one map, for --verbose:
///
///     otters.jpg  1920x1080 -> 224x224  otter 67.47 %  hydra layer 11  14x14  -0.031..0.42
///     cls 12.1 %  61.2 ms  heatmaps/otters.heatmap.png
std::string to_verbose_text(const MapRecord& record, LabelType label_type, bool color);

}  // namespace hydrascope::app
