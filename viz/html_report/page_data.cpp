#include "viz/html_report/page_data.h"

#include "kernels/error.h"
#include "viz/heat/heat_overlay.h"
#include "viz/page/markup.h"
#include "viz/scale/colormap.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace hydrascope::viz::page {
namespace {

static_assert(std::endian::native == std::endian::little, "maps are written as they lie in memory");

using Json = nlohmann::ordered_json;

/// The text of a <script> element ends at "</script" and changes its meaning at "<!--": no "<" is
/// left. It occurs in strings only, so an escape of strings will do.
std::string text_of(const Json& json) {
  std::string text;
  for (const char character : json.dump()) {
    if (character == '<') {
      text += "\\u003c";
    } else {
      text += character;
    }
  }
  return text;
}

std::string chosen(const std::string& name, std::string_view otherwise) {
  const std::string_view wanted = name.empty() ? otherwise : std::string_view(name);
  if (find_colormap_or_null(wanted) == nullptr) {
    throw Error(ErrorCode::invalid_argument, "no colour map has this name", std::string(wanted));
  }
  return std::string(wanted);
}

Json axis_json(const Axis& axis) {
  return {{"picture", axis.picture}, {"resized", axis.resized}, {"start", axis.window_start},
          {"window", axis.window},   {"output", axis.output},   {"cells", axis.cells}};
}

std::string_view sign_name(Sign sign) {
  switch (sign) {
    case Sign::both: return "both";
    case Sign::positive: return "positive";
    case Sign::absolute: return "absolute";
  }
  return "";
}

/// The position of `value` in `values`, where it is added if it is not there.
template <typename T>
std::size_t position_in(std::vector<T>& values, const T& value) {
  const auto found = std::find(values.begin(), values.end(), value);
  if (found != values.end()) return static_cast<std::size_t>(found - values.begin());
  values.push_back(value);
  return values.size() - 1;
}

const ReportPrediction* prediction_or_null(const ReportAnswer& answer, std::int64_t index) {
  for (const auto* predictions : {&answer.top, &answer.others}) {
    const auto found = std::ranges::find(*predictions, index, &ReportPrediction::index);
    if (found != predictions->end()) return &*found;
  }
  return nullptr;
}

void check_size(const ReportMap& map, const ReportAnswer& answer, const std::string& name) {
  const std::int64_t rows = answer.placement.vertical.cells;
  const std::int64_t columns = answer.placement.horizontal.cells;
  const bool fits = map.map.rows == rows && map.map.columns == columns &&
                    map.map.values.size() == static_cast<std::size_t>(rows * columns);
  if (fits) return;
  throw Error(ErrorCode::internal,
              "a map of " + std::to_string(map.map.rows) + " x " + std::to_string(map.map.columns) +
                  " cells with " + std::to_string(map.map.values.size()) + " values, expected " +
                  std::to_string(rows) + " x " + std::to_string(columns),
              name);
}

/// All of a picture's.
std::vector<const ReportAnswer*> answers_of(const ReportPicture& picture) {
  std::vector<const ReportAnswer*> answers{&picture};
  if (picture.against) answers.push_back(&*picture.against);
  return answers;
}

}  // namespace

std::string settings_json(const ReportOptions& options) {
  Json tables = Json::array();
  for (const Colormap& colormap : colormaps()) {
    tables.push_back({{"name", colormap.name},
                      {"diverging", colormap.diverging},
                      {"colors", base64(std::as_bytes(std::span(colormap.colors)))}});
  }
  Json models = Json::array();
  for (const std::string& name : options.models) models.push_back(valid_text(name));
  return text_of({{"models", std::move(models)},
                  {"colormaps", std::move(tables)},
                  {"unseenBrightness", OverlayStyle().unseen_brightness},
                  {"outlierPercent", options.outlier_percent},
                  {"split", std::clamp(options.split, 0.0, 1.0)},
                  {"look",
                   {{"opacity", std::clamp(options.alpha, 0.0, 1.0)},
                    {"colormap", chosen(options.colormap, kDefaultColormap)},
                    {"signedColormap", chosen(options.signed_colormap, kDefaultDivergingColormap)},
                    {"sign", sign_name(options.sign)},
                    {"mass", std::clamp(options.outlined_mass, 0.0, 1.0)},
                    {"smooth", !options.blocks},
                    {"fade", options.fade}}}});
}

std::string about_json(const ReportPicture& picture, const std::string& thumbnail) {
  std::vector<std::int64_t> classes;
  std::vector<std::string> notes;
  Json models = Json::array();
  std::size_t line = 0;
  for (const ReportAnswer* answer : answers_of(picture)) {
    Json maps = Json::array();
    for (const ReportMap& map : answer->maps) {
      check_size(map, *answer, picture.name);
      Json entry = {{"line", line++},
                    {"method", valid_text(map.method)},
                    {"class", nullptr},
                    {"layer", map.layer},
                    {"head", valid_text(map.head)},
                    {"signed", map.is_signed},
                    {"ownShare", map.own_share},
                    {"total", map.total},
                    {"additive", map.is_additive}};
      if (map.class_index) entry["class"] = position_in(classes, *map.class_index);
      if (map.range) entry["range"] = {{"low", map.range->low}, {"high", map.range->high}};
      if (!map.note.empty()) entry["note"] = position_in(notes, valid_text(map.note));
      maps.push_back(std::move(entry));
    }
    models.push_back({{"vertical", axis_json(answer->placement.vertical)},
                      {"horizontal", axis_json(answer->placement.horizontal)},
                      {"maps", std::move(maps)}});
  }
  Json class_list = Json::array();
  for (const std::int64_t index : classes) {
    Json& entry = class_list.emplace_back(Json{{"index", index}});
    std::size_t model = 0;
    for (const ReportAnswer* answer : answers_of(picture)) {
      const ReportPrediction* prediction = prediction_or_null(*answer, index);
      if (prediction != nullptr) entry["label"] = valid_text(prediction->label);
      models[model++]["probabilities"].push_back(
          prediction == nullptr ? Json() : Json(prediction->probability));
    }
  }
  for (Json& model : models)
    if (!model.contains("probabilities")) model["probabilities"] = Json::array();
  Json boxes = Json::array();
  for (const auto& [left, top, width, height, label] : picture.boxes)
    boxes.push_back({{"left", left},
                     {"top", top},
                     {"width", width},
                     {"height", height},
                     {"label", valid_text(label)}});
  return text_of({{"thumbnail", thumbnail},
                  {"classes", std::move(class_list)},
                  {"notes", notes},
                  {"boxes", std::move(boxes)},
                  {"models", std::move(models)}});
}

std::string map_lines(const ReportPicture& picture) {
  std::string lines;
  for (const ReportAnswer* answer : answers_of(picture)) {
    for (const ReportMap& map : answer->maps) {
      lines += base64(std::as_bytes(std::span(map.map.values)));
      lines += '\n';
    }
  }
  return lines;
}

}  // namespace hydrascope::viz::page
