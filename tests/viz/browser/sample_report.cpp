// Writes FOLDER/report.html and FOLDER/expected.json: a report over synthetic pictures, and what
// page_test.py must find in it: what the program itself draws.
#include "viz/canvas.h"
#include "viz/colormap.h"
#include "viz/heat_overlay.h"
#include "viz/html_report.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::viz {
namespace {

using Json = nlohmann::ordered_json;

/// A soft landscape: nothing that JPEG would change much.
Canvas landscape(int width, int height) {
  Canvas canvas{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double hill = 0.5 + 0.15 * std::sin(6.0 * x / width) - 1.0 * y / height;
      const bool sky = hill > 0;
      canvas.rgb.push_back(static_cast<std::uint8_t>(sky ? 150 + 60 * hill : 70 + 40 * hill));
      canvas.rgb.push_back(static_cast<std::uint8_t>(sky ? 180 + 50 * hill : 120 + 60 * hill));
      canvas.rgb.push_back(static_cast<std::uint8_t>(sky ? 220 : 80 + 30 * hill));
    }
  }
  return canvas;
}

ReportMap sample_map(std::string method, std::int64_t layer, std::string head,
                     std::optional<std::int64_t> class_index, const Placement& placement) {
  ReportMap map;
  map.method = std::move(method);
  map.layer = layer;
  map.head = std::move(head);
  map.class_index = class_index;
  map.is_signed = map.method == "hydra";
  map.own_share = map.is_signed ? -0.125 : 0.25;
  map.note = map.is_signed ? "signed: \u2265 0 speaks for the class" : "";
  map.map.rows = placement.vertical.cells;
  map.map.columns = placement.horizontal.cells;
  const auto kind = static_cast<double>(map.method.size() + map.head.size());
  const auto number = static_cast<double>(class_index.value_or(0) + 3 * layer);
  for (std::int64_t row = 0; row < map.map.rows; ++row) {
    for (std::int64_t column = 0; column < map.map.columns; ++column) {
      const double wave = std::sin(0.55 * static_cast<double>(row) + number) *
                          std::cos(0.4 * static_cast<double>(column) + kind);
      const double value = map.is_signed ? wave : (wave + 1.01) / 400;
      map.map.values.push_back(static_cast<float>(value));
    }
  }
  return map;
}

ReportPicture sample_picture(std::string name, int width, int height, const Placement& placement) {
  ReportPicture picture;
  picture.name = std::move(name);
  picture.picture = landscape(width, height);
  picture.placement = placement;
  picture.top = {
      {360, "otter", 0.9312}, {356, "weasel", 0.0301}, {359, "black-footed ferret", 0.0111}};
  picture.others = {{0, "tench, Tinca tinca", 0.0001}};
  picture.facts = {{"size", std::to_string(width) + " x " + std::to_string(height)},
                   {"seconds", "0.0134"}};
  for (const std::int64_t layer : {9, 10, 11}) {
    for (const std::int64_t index : {360, 356, 0}) {
      picture.maps.push_back(sample_map("hydra", layer, "mean", index, placement));
    }
    for (const char* head : {"mean", "0", "1"}) {
      picture.maps.push_back(sample_map("attention", layer, head, std::nullopt, placement));
    }
  }
  picture.maps.push_back(sample_map("rollout", 11, "mean", std::nullopt, placement));
  return picture;
}

/// What the program draws at full opacity: the colour of every `kStep`th pixel; null where the
/// model saw nothing.
Json expected_colors(const ReportPicture& picture, const ReportMap& map, Sampling sampling) {
  constexpr int kStep = 7;
  Canvas drawn = filled(picture.picture.width, picture.picture.height, {});
  const std::string_view table = map.is_signed ? kDefaultDivergingColormap : kDefaultColormap;
  OverlayStyle style;
  style.colormap = find_colormap_or_null(table);
  style.alpha = 1;
  style.sampling = sampling;
  draw_heat(drawn, map.map, range_of(map.map, map.is_signed, 0), picture.placement, style);
  Json colors = Json::array();
  for (int y = 0; y < drawn.height; y += kStep) {
    for (int x = 0; x < drawn.width; x += kStep) {
      const bool is_seen = cell_at(picture.placement.vertical, y) >= 0 &&
                           cell_at(picture.placement.horizontal, x) >= 0;
      const std::uint8_t* rgb = &drawn.rgb[(static_cast<std::size_t>(y) * drawn.width + x) * 3];
      colors.push_back({x, y, is_seen ? Json{rgb[0], rgb[1], rgb[2]} : Json()});
    }
  }
  return colors;
}

Json expected_map(const ReportPicture& picture, const ReportMap& map) {
  return {{"columns", map.map.columns},
          {"values", map.map.values},
          {"blocks", expected_colors(picture, map, Sampling::nearest)},
          {"smooth", expected_colors(picture, map, Sampling::bilinear)}};
}

const ReportMap& map_of(const ReportPicture& picture, std::string_view method, std::int64_t layer) {
  return *std::find_if(picture.maps.begin(), picture.maps.end(), [&](const ReportMap& map) {
    return map.method == method && map.layer == layer;
  });
}

void write_sample(const std::filesystem::path& folder) {
  const Axis squash_rows{360, 224, 0, 224, 224, 14};
  const Axis squash_columns{480, 224, 0, 224, 224, 14};
  std::vector<ReportPicture> pictures;
  pictures.push_back(sample_picture("photos/crop.jpg", 480, 360,
                                    {{360, 256, 16, 224, 224, 14}, {480, 341, 58, 224, 224, 14}}));
  pictures.push_back(sample_picture("squash.jpg", 480, 360, {squash_rows, squash_columns}));
  pictures.push_back(sample_picture("native, padded.png", 500, 270,
                                    {{270, 270, 0, 270, 272, 17}, {500, 500, 0, 500, 512, 32}}));
  pictures.push_back(sample_picture("border.webp", 200, 300,
                                    {{300, 224, 0, 224, 224, 14}, {200, 149, -37, 224, 224, 14}}));
  pictures.push_back(
      sample_picture("</script><script>throw 1</script>\"'&amp; \xFF\x01 "
                     "\xF0\x9F\xA6\xA6.jpg",
                     480, 360, {squash_rows, squash_columns}));
  ReportPicture holes = sample_picture("holes.jpg", 480, 360, {squash_rows, squash_columns});
  for (ReportMap& map : holes.maps) {
    map.map.values[0] = std::numeric_limits<float>::quiet_NaN();
  }
  pictures.push_back(std::move(holes));
  ReportPicture bare = sample_picture("no maps.jpg", 480, 360, {squash_rows, squash_columns});
  bare.maps.clear();
  pictures.push_back(std::move(bare));
  for (int i = 0; i < 24; ++i) {
    pictures.push_back(sample_picture("more/" + std::to_string(i) + ".jpg", 480, 360,
                                      {squash_rows, squash_columns}));
  }

  ReportOptions options;
  options.title = "Heat maps of \"synthetic\" <pictures>";
  options.facts = {{"model", "deit_tiny_patch16_224"},
                   {"attention", "hydra"},
                   {"device", "cpu"},
                   {"precision", "float32"}};
  HtmlReport report(folder / "report.html", options);
  Json expected = Json::array();
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const ReportPicture& picture = pictures[i];
    report.add(picture);
    if (i == 2)
      report.add(ReportFailure{"bad </article>.jpg", "truncated: <no> picture & nothing"});
    if (i > 3) continue;
    expected.push_back({{"name", picture.name},
                        {"hydra", expected_map(picture, map_of(picture, "hydra", 11))},
                        {"attention", expected_map(picture, map_of(picture, "attention", 10))}});
  }
  report.finish();
  std::ofstream(folder / "expected.json") << expected.dump();
}

}  // namespace
}  // namespace hydrascope::viz

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: sample_report FOLDER\n";
    return EXIT_FAILURE;
  }
  hydrascope::viz::write_sample(arguments[1]);
  return EXIT_SUCCESS;
}
