// Writes reports over synthetic pictures for page_test.py, and what it must find in them, which is
// what the program itself draws: report.html with expected.json, look-N.html of several options
// with first_looks.json, pair.html of two models, views.html of zoom's views with views.json,
// fine.html of a fine grid, charts.html, and large.html.
#include "tests/viz/heat/cell_at.h"
#include "viz/charts/chart_page.h"
#include "viz/heat/heat_overlay.h"
#include "viz/heat/placement.h"
#include "viz/html_report/html_report.h"
#include "viz/page/markup.h"
#include "viz/picture/canvas.h"
#include "viz/scale/colormap.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::viz {
namespace {

using Json = nlohmann::ordered_json;

struct SampleClass {
  std::int64_t index;
  std::string label;
  double probability;
};

struct SampleMap {
  std::string method;
  std::int64_t layer = 0;
  std::string head;
  std::optional<std::int64_t> class_index;
  HeatMap map;
  bool is_signed = false;
};

struct SampleAnswer {
  Placement placement;
  std::vector<SampleClass> top;
  std::vector<SampleMap> maps;
};

struct SamplePicture : SampleAnswer {
  std::string name;
  Canvas picture;
  std::optional<SampleAnswer> against;
};

Json class_json(const SampleClass& each) {
  return {{"index", each.index}, {"id", ""}, {"label", each.label}, {"prob", each.probability}};
}

Json axis_json(const Axis& axis) {
  return {{"picture", axis.picture}, {"resized", axis.resized}, {"start", axis.window_start},
          {"window", axis.window},   {"output", axis.output},   {"cells", axis.cells}};
}

/// As `POST /v1/explain` answers: docs/serve.md.
Json answer_json(const SampleAnswer& answer) {
  const auto& [vertical, horizontal] = answer.placement;
  Json top = Json::array();
  for (const SampleClass& each : answer.top) top.push_back(class_json(each));
  Json maps = Json::array();
  for (const SampleMap& map : answer.maps) {
    const std::int64_t index = map.class_index.value_or(answer.top.front().index);
    const auto known = std::ranges::find(answer.top, index, &SampleClass::index);
    const SampleClass of_class =
        known != answer.top.end() ? *known : SampleClass{index, "tench, Tinca tinca", 0.0001};
    maps.push_back({{"class", class_json(of_class)},
                    {"method", map.method},
                    {"layer", map.layer},
                    {"head", map.head},
                    {"cls_share", map.is_signed ? -0.125 : 0.25},
                    {"note", map.is_signed ? "signed: \u2265 0 speaks for the class" : ""},
                    {"of_class", map.class_index.has_value()},
                    {"signed", map.is_signed},
                    {"quantity", map.is_signed ? "contribution to the logit" : "weight"},
                    {"total", map.is_signed ? 8 : 1},
                    {"additive", map.is_signed},
                    {"vertical", axis_json(vertical)},
                    {"horizontal", axis_json(horizontal)},
                    {"values", page::base64(std::as_bytes(std::span(map.map.values)))}});
  }
  return {{"width", horizontal.picture},
          {"height", vertical.picture},
          {"model_size", {vertical.output, horizontal.output}},
          {"top", std::move(top)},
          {"maps", std::move(maps)}};
}

ReportPicture report_picture(const SamplePicture& sample) {
  ReportPicture picture;
  picture.name = sample.name;
  picture.picture = sample.picture;
  Json answer = answer_json(sample);
  if (sample.against) answer["against"] = answer_json(*sample.against);
  picture.answer = answer.dump();
  for (const SampleClass& each : sample.top) picture.top.push_back(each.label);
  picture.finest_grid =
      std::max(sample.placement.vertical.cells, sample.placement.horizontal.cells);
  return picture;
}

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

SampleMap sample_map(std::string method, std::int64_t layer, std::string head,
                     std::optional<std::int64_t> class_index, const Placement& placement) {
  SampleMap map;
  map.method = std::move(method);
  map.layer = layer;
  map.head = std::move(head);
  map.class_index = class_index;
  map.is_signed = map.method == "hydra";
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

SamplePicture sample_picture(std::string name, int width, int height, const Placement& placement) {
  SamplePicture picture;
  picture.name = std::move(name);
  picture.picture = landscape(width, height);
  picture.placement = placement;
  picture.top = {
      {360, "otter", 0.9312}, {356, "weasel", 0.0301}, {359, "black-footed ferret", 0.0111}};
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

/// The program's drawing over black, at full opacity: the colour of every `kStep`th pixel; null where it is
/// what the model did not see.
Json expected_colors(const SamplePicture& picture, const SampleMap& map,
                     const ReportOptions& options) {
  constexpr int kStep = 7;
  Canvas drawn = filled(picture.picture.width, picture.picture.height, {});
  const HeatMap heat = with_sign(map.map, options.sign);
  const bool is_two_sided = map.is_signed && options.sign == Sign::both;
  const std::string& table = is_two_sided ? options.signed_colormap : options.colormap;
  OverlayStyle style;
  style.colormap = find_colormap_or_null(table);
  style.alpha = 1;
  const ValueRange range = range_of(heat, style.colormap->diverging, kOutlierPercent);
  draw_heat(drawn, heat, range, picture.placement, style);
  frame_seen(drawn, picture.placement, 1);
  Json colors = Json::array();
  for (int y = 0; y < drawn.height; y += kStep) {
    for (int x = 0; x < drawn.width; x += kStep) {
      const bool is_seen = cell_at(picture.placement.vertical, y) >= 0 &&
                           cell_at(picture.placement.horizontal, x) >= 0;
      const std::uint8_t* rgb = &drawn.rgb[(static_cast<std::size_t>(y) * drawn.width + x) * 3];
      const bool is_line = !is_seen && rgb[0] > 0;
      colors.push_back({x, y, is_seen || is_line ? Json{rgb[0], rgb[1], rgb[2]} : Json()});
    }
  }
  return colors;
}

ReportOptions opaque(std::string_view colormap, std::string_view signed_colormap) {
  ReportOptions options;
  options.title = "Heat maps";
  options.colormap = colormap;
  options.signed_colormap = signed_colormap;
  options.sign = Sign::both;
  options.alpha = 1;
  return options;
}

Json expected_map(const SamplePicture& picture, const SampleMap& map) {
  const ReportOptions options = opaque(kDefaultColormap, kDefaultDivergingColormap);
  return {{"columns", map.map.columns},
          {"values", map.map.values},
          {"colors", expected_colors(picture, map, options)}};
}

const SampleMap& map_of(const SamplePicture& picture, std::string_view method, std::int64_t layer) {
  return *std::find_if(picture.maps.begin(), picture.maps.end(), [&](const SampleMap& map) {
    return map.method == method && map.layer == layer;
  });
}

/// A second model over the same picture: its own transform, grid, layers and answers.
SampleAnswer other_answer(const SamplePicture& picture) {
  SampleAnswer other;
  other.placement = {Axis::whole(picture.picture.height, 7), Axis::whole(picture.picture.width, 7)};
  other.top = {{356, "weasel", 0.7}, {360, "otter", 0.2}};
  for (const SampleMap& map : picture.maps) {
    if (map.layer == 9) continue;
    other.maps.push_back(
        sample_map(map.method, map.layer, map.head, map.class_index, other.placement));
  }
  return other;
}

/// Two models, and a picture whose map is fine: 12 layers of 68 x 120 cells.
void write_pair(const std::filesystem::path& folder) {
  ReportOptions options;
  options.title = "Two models";
  options.models = {"first", "second <model>"};
  options.sign = Sign::both;
  HtmlReport report(folder / "pair.html", options);
  for (const char* name : {"one.jpg", "two.jpg"}) {
    SamplePicture picture = sample_picture(
        name, 480, 360, {{360, 256, 16, 224, 224, 14}, {480, 341, 58, 224, 224, 14}});
    picture.against = other_answer(picture);
    report.add(report.prepare(report_picture(picture)));
  }
  report.finish();

  HtmlReport fine(folder / "fine.html", {});
  SamplePicture picture = sample_picture("fine.jpg", 1920, 1080,
                                         {{1080, 1080, 0, 1080, 1088, 68}, Axis::whole(1920, 120)});
  picture.maps.clear();
  for (std::int64_t layer = 0; layer < 12; ++layer)
    picture.maps.push_back(sample_map("hydra", layer, "mean", 360, picture.placement));
  fine.add(fine.prepare(report_picture(picture)));
  fine.finish();
}

/// A picture that was seen in parts, and one that was not.
void write_views(const std::filesystem::path& folder) {
  const auto view = [](std::int64_t index, std::string label, double probability, double weight,
                       std::array<std::int64_t, 4> box) {
    Json json = class_json({index, std::move(label), probability});
    json["weight"] = weight;
    json["box"] = {{"left", box[0]}, {"top", box[1]}, {"width", box[2]}, {"height", box[3]}};
    return json;
  };
  Json views = {view(356, "weasel", 0.5, 0.125, {240, 0, 720, 720}),
                view(360, "otter", 0.75, 0.5, {320, 100, 224, 224}),
                view(360, "otter", 0.25, 0.375, {400, 150, 160, 160}),
                view(0, "tench", 0.0625, 0, {0, 0, 960, 720})};
  ReportOptions options;
  options.title = "Views";
  HtmlReport report(folder / "views.html", options);
  for (const char* name : {"views.jpg", "once.jpg"}) {
    ReportPicture picture = report_picture(
        sample_picture(name, 960, 720, {Axis::whole(720, 27), Axis::whole(960, 36)}));
    if (picture.name == "views.jpg") {
      Json answer = Json::parse(picture.answer);
      answer.update({{"finder", "a model that finds"}, {"views", views}});
      answer["top"][0]["mark"] = {{"x", 432}, {"y", 216}};
      answer["top"][1]["mark"] = {{"x", 948}, {"y", 714}};
      picture.answer = answer.dump();
    }
    report.add(report.prepare(picture));
  }
  report.finish();
  std::ofstream(folder / "views.json") << views.dump();
}

/// What `evaluate` and `benchmark` write is made of the same parts.
void write_charts(const std::filesystem::path& folder) {
  ChartPage page("Charts", "Charts", {{"model", "deit_tiny_patch16_224"}});
  page.add_warning("A warning.");
  page.add_charts(std::vector<LineChart>{
      {"loss", "steps", "nats", {{"one", {{0, 3}, {1, 2}}}, {"two", {{0, 2}, {1, 1}}, false}}}});
  page.add_heading("Errors");
  page.add_gallery(
      std::vector<GalleryPicture>{{"a.jpg", landscape(400, 300), {"is otter", "taken for mink"}}});
  page.add_table(std::vector<std::vector<std::string>>{{"class", "images"}, {"otter", "3"}});
  page.add_table(
      std::vector<std::vector<std::string>>(2, std::vector<std::string>(12, "wide words")), {}, {},
      "More than a telephone is wide");
  std::ofstream(folder / "charts.html") << page.html();
}

void write_sample(const std::filesystem::path& folder) {
  const Axis squash_rows{360, 224, 0, 224, 224, 14};
  const Axis squash_columns{480, 224, 0, 224, 224, 14};
  std::vector<SamplePicture> pictures;
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
  SamplePicture holes = sample_picture("holes.jpg", 480, 360, {squash_rows, squash_columns});
  for (SampleMap& map : holes.maps) {
    map.map.values[0] = std::numeric_limits<float>::quiet_NaN();
  }
  pictures.push_back(std::move(holes));
  pictures.push_back(sample_picture("plain.jpg", 480, 360, {squash_rows, squash_columns}));
  for (int i = 0; i < 24; ++i) {
    pictures.push_back(sample_picture("more/" + std::to_string(i) + ".jpg", 480, 360,
                                      {squash_rows, squash_columns}));
  }

  ReportOptions options;
  options.title = "Heat maps of \"synthetic\" <pictures>";
  options.sign = Sign::both;
  options.facts = {{"model", "deit_tiny_patch16_224"},
                   {"attention", "hydra"},
                   {"device", "cpu"},
                   {"precision", "float32"}};
  HtmlReport report(folder / "report.html", options);
  Json expected = Json::array();
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const SamplePicture& picture = pictures[i];
    report.add(report.prepare(report_picture(picture)));
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

/// A page by look, each with a signed map over one picture and an unsigned one over another.
void write_first_looks(const std::filesystem::path& folder) {
  const Placement placement{{336, 224, 0, 224, 224, 14}, {448, 224, 0, 224, 224, 14}};
  std::vector<ReportOptions> looks(4, opaque("viridis", "viridis"));
  looks[1] = opaque(kDefaultColormap, kDefaultDivergingColormap);
  looks[1].sign = Sign::positive;
  looks[2] = opaque("blue-orange", "blue-orange");
  looks[2].sign = Sign::absolute;
  looks[3] = opaque("magma", kDefaultDivergingColormap);
  Json cases = Json::array();
  for (std::size_t i = 0; i < looks.size(); ++i) {
    const std::string file = "look-" + std::to_string(i) + ".html";
    HtmlReport report(folder / file, looks[i]);
    Json pictures = Json::array();
    for (const char* method : {"hydra", "attention"}) {
      SamplePicture picture = sample_picture(method, 448, 336, placement);
      picture.maps = {sample_map(method, 11, "mean", 360, placement)};
      const SampleMap& map = picture.maps.front();
      pictures.push_back(expected_colors(picture, map, looks[i]));
      report.add(report.prepare(report_picture(picture)));
    }
    report.finish();
    cases.push_back({{"page", file}, {"pictures", std::move(pictures)}});
  }
  std::ofstream(folder / "first_looks.json") << cases.dump();
}

/// 50 pictures with the maps of 2 methods, 12 layers and 3 classes. Noise over a landscape is
/// harder on JPEG than photographs are.
void write_large(const std::filesystem::path& folder) {
  const Placement placement{{640, 224, 0, 224, 224, 14}, {960, 224, 0, 224, 224, 14}};
  std::mt19937 random(3);
  HtmlReport report(folder / "large.html", {});
  for (int i = 0; i < 50; ++i) {
    SamplePicture picture =
        sample_picture("large/" + std::to_string(i) + ".jpg", 960, 640, placement);
    for (std::uint8_t& value : picture.picture.rgb) {
      value = static_cast<std::uint8_t>(
          std::clamp<int>(value + static_cast<int>(random() % 61) - 30, 0, 255));
    }
    picture.maps.clear();
    for (const char* method : {"hydra", "attention"}) {
      for (std::int64_t layer = 0; layer < 12; ++layer) {
        for (const std::int64_t index : {360, 356, 0}) {
          picture.maps.push_back(sample_map(method, layer, "mean", index, placement));
        }
      }
    }
    report.add(report.prepare(report_picture(picture)));
  }
  report.finish();
}

}  // namespace
}  // namespace hydrascope::viz

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: sample_report FOLDER\n";
    return EXIT_FAILURE;
  }
  hydrascope::viz::write_sample(arguments[1]);
  hydrascope::viz::write_first_looks(arguments[1]);
  hydrascope::viz::write_pair(arguments[1]);
  hydrascope::viz::write_views(arguments[1]);
  hydrascope::viz::write_charts(arguments[1]);
  hydrascope::viz::write_large(arguments[1]);
  return EXIT_SUCCESS;
}
