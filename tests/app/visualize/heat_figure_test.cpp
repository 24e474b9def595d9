#include "app/visualize/heat_figure.h"

#include "app/maps/input_map.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace hydrascope::app {
namespace {

using model::explain::Method;

InputMap input_map(Method method, std::vector<float> values, bool is_signed) {
  InputMap map;
  map.choice = {method, 11, {}};
  map.of_class = {1, 360, "n02444819", "otter", 0.6747, 11.8};
  map.map = {2, 2, std::move(values)};
  map.is_signed = is_signed;
  return map;
}

viz::Placement whole(int width, int height) {
  return {viz::Axis::whole(height, 2), viz::Axis::whole(width, 2)};
}

viz::Canvas grey(int width, int height) {
  return {width, height,
          std::vector<std::uint8_t>(static_cast<std::size_t>(width * height * 3), 128)};
}

TEST(InputMapTest, Names) {
  InputMap map = input_map(Method::grad_rollout, {0, 1, 2, 3}, false);
  EXPECT_EQ(caption(map, LabelType::name),
            (std::vector<std::string>{"otter 67.5 %", "grad-rollout, layer 11"}));
  EXPECT_EQ(caption(map, LabelType::id).front(), "n02444819 67.5 %");
  EXPECT_EQ(caption(map, LabelType::index).front(), "360 67.5 %");
  map.choice.head = {Head::Kind::one, 2};
  EXPECT_EQ(caption(map, LabelType::name).back(), "grad-rollout, layer 11, head 2");
}

TEST(InputMapTest, NotesAreJoinedAndRulesGathered) {
  InputMap map = input_map(Method::rollout, {0, 1, 2, 3}, false);
  EXPECT_EQ(record_of(MapRecord(), map).note, "");
  map.note = "approximate";
  map.rules = {"softmax map", "softmax map", "skipped"};
  EXPECT_EQ(record_of(MapRecord(), map).note,
            "approximate; layers 0-1 softmax map, layer 2 skipped");
}

TEST(ShownMapTest, TwoSignsAreShownAroundZero) {
  FigureOptions both;
  both.sign = viz::Sign::both;
  const ShownMap shown = shown_map(input_map(Method::hydra, {-1, 0, 2, 3}, true), both);
  EXPECT_TRUE(shown.colormap->diverging);
  EXPECT_FLOAT_EQ(shown.range.low, -3);
  EXPECT_FLOAT_EQ(shown.range.high, 3);
}

/// The maps over `placement`.
viz::Canvas drawn(viz::Canvas picture, const viz::Placement& placement, std::vector<ShownMap> maps,
                  const FigureOptions& options, std::optional<viz::Size> frame = std::nullopt) {
  for (ShownMap& map : maps) map.placement = placement;
  return draw_figure(std::move(picture), maps, options, frame);
}

TEST(ShownMapTest, CaptionsNameClassesAsAsked) {
  FigureOptions options;
  options.label_type = LabelType::id;
  EXPECT_EQ(shown_map(input_map(Method::attention, {0, 1, 2, 3}, false), options).caption.front(),
            "n02444819 67.5 %");
}

TEST(ShownMapTest, OneSignIsShownFromEndToEnd) {
  const ShownMap shown = shown_map(input_map(Method::attention, {1, 2, 3, 5}, false), {});
  EXPECT_EQ(shown.colormap->name, viz::kDefaultColormap);
  EXPECT_FLOAT_EQ(shown.range.low, 1);
  EXPECT_FLOAT_EQ(shown.range.high, 5);
  const ShownMap half = shown_map(input_map(Method::hydra, {-1, 0, 2, 3}, true), {});
  EXPECT_FALSE(half.colormap->diverging);
  EXPECT_FLOAT_EQ(half.range.low, 0);
}

TEST(DrawFigureTest, OneMapIsThePictureAtItsOwnSize) {
  const std::vector<ShownMap> maps{
      shown_map(input_map(Method::attention, {0, 0, 0, 9}, false), {})};
  const viz::Canvas figure = drawn(grey(40, 30), whole(40, 30), maps, {});
  EXPECT_EQ(figure.width, 40);
  EXPECT_EQ(figure.height, 30);
  const auto red = [&](int x, int y) {
    return figure.rgb.at(static_cast<std::size_t>((y * 40 + x) * 3));
  };
  EXPECT_EQ(red(0, 0), 128) << "a cold cell shows the picture";
  EXPECT_NE(red(30, 22), 128) << "the hot cell does not";
}

TEST(DrawFigureTest, WhatTheModelDidNotSeeIsDimmedBehindAThinLine) {
  // The middle 30 x 30 of 40 x 30 pixels.
  const viz::Placement crop{viz::Axis::whole(30, 2), {40, 40, 5, 30, 30, 2}};
  FigureOptions options;
  options.alpha = 0;
  const std::vector<ShownMap> maps{
      shown_map(input_map(Method::attention, {0, 0, 0, 9}, false), options)};
  const viz::Canvas figure = drawn(grey(40, 30), crop, maps, options);
  const auto red = [&](int x) {
    return figure.rgb.at(static_cast<std::size_t>((10 * 40 + x) * 3));
  };
  EXPECT_EQ(red(3), 77) << "0.6 of 128";
  EXPECT_GT(red(4), 200);
  EXPECT_EQ(red(5), 128);
  EXPECT_EQ(red(34), 128);
  EXPECT_GT(red(35), 200);
  EXPECT_EQ(red(36), 77);
}

/// The places of a figure's panels: their corners, row by row. Panels are of one colour.
std::vector<std::vector<int>> panel_rows(const viz::Canvas& figure, std::uint8_t red) {
  const auto is_panel = [&](int x, int y) {
    const auto in = [&](int px, int py) {
      return px >= 0 && py >= 0 &&
             figure.rgb.at(static_cast<std::size_t>((py * figure.width + px) * 3)) == red;
    };
    return in(x, y) && !in(x - 1, y) && !in(x, y - 1) && in(x + 1, y) && in(x, y + 1) &&
           in(x + 8, y + 8);
  };
  std::vector<std::vector<int>> rows;
  for (int y = 0; y + 8 < figure.height; ++y) {
    std::vector<int> row;
    for (int x = 0; x + 8 < figure.width; ++x)
      if (is_panel(x, y)) row.push_back(x);
    if (!row.empty()) rows.push_back(row);
  }
  return rows;
}

TEST(DrawFigureTest, AMarkIsACrossWithTheClassInPlaceOfTheCorner) {
  FigureOptions options;
  options.alpha = 0;
  options.title = true;
  InputMap map = input_map(Method::attention, {0, 0, 0, 9}, false);
  map.placement = whole(400, 300);
  const auto drawn_with = [&](std::optional<std::array<std::int64_t, 2>> mark) {
    map.of_class.mark = mark;
    const std::vector<ShownMap> maps{shown_map(map, options)};
    return draw_figure(grey(400, 300), maps, options);
  };
  const auto at = [](const viz::Canvas& figure, int x, int y) {
    return figure.rgb.at(static_cast<std::size_t>((y * figure.width + x) * 3));
  };
  EXPECT_EQ(at(drawn_with(std::nullopt), 1, 1), 32) << "the label";
  const viz::Canvas marked = drawn_with(std::array<std::int64_t, 2>{100, 150});
  EXPECT_NE(at(marked, 1, 1), 32);
  EXPECT_EQ(at(marked, 95, 150), 255) << "an arm";
  EXPECT_EQ(at(marked, 95, 151), 32) << "its rim";
  EXPECT_EQ(at(marked, 100, 150), at(marked, 300, 250)) << "what is marked can be seen";
  EXPECT_EQ(at(marked, 109, 141), 32) << "the label beside it";
}

TEST(DrawFigureTest, AMapOfAViewLiesInItsBoxBelowItsClass) {
  FigureOptions options;
  options.alpha = 0;
  options.title = true;
  InputMap map = input_map(Method::hydra, {0, 0, 0, 9}, true);
  // Columns 100 to 180 and rows 60 to 140 of 200 x 150, seen at half that size.
  map.placement = viz::Placement{{150, 75, 30, 40, 40, 2}, {200, 100, 50, 40, 40, 2}};
  const std::vector<ShownMap> maps{shown_map(map, options)};
  const viz::Canvas figure = draw_figure(grey(200, 150), maps, options);
  ASSERT_EQ(viz::size_of(figure), (viz::Size{200, 150}));
  const auto pixel = [&](int x, int y) {
    const std::size_t at = static_cast<std::size_t>((y * 200 + x) * 3);
    return std::array<int, 3>{figure.rgb.at(at), figure.rgb.at(at + 1), figure.rgb.at(at + 2)};
  };
  EXPECT_EQ(pixel(102, 62), (std::array{128, 128, 128})) << "inside it is the picture";
  EXPECT_EQ(pixel(178, 138), (std::array{128, 128, 128}));
  EXPECT_EQ(pixel(90, 100), (std::array{77, 77, 77})) << "outside it is dimmed";
  EXPECT_EQ(pixel(190, 145), (std::array{77, 77, 77}));
  EXPECT_EQ(pixel(100, 58), (std::array{32, 32, 32})) << "above its corner is its label";
  // At the upper edge the label has no room above.
  map.placement = viz::Placement{{150, 75, 0, 40, 40, 2}, {200, 100, 50, 40, 40, 2}};
  const std::vector<ShownMap> upper{shown_map(map, options)};
  const viz::Canvas labelled = draw_figure(grey(200, 150), upper, options);
  EXPECT_EQ(labelled.rgb.at(100 * 3), 32);
  // On a sheet the panels are smaller, and so is the box.
  const std::vector<ShownMap> two{maps.front(), upper.front()};
  EXPECT_NO_THROW(draw_figure(grey(2000, 1500), two, options));
}

TEST(DrawFigureTest, LayersStandSideBySideAndARowIsAMethodHeadAndClass) {
  FigureOptions options;
  options.alpha = 0;
  const auto rows_of_panels = [&](std::vector<std::int64_t> layers, int classes, int heads,
                                  bool beside) {
    options.beside = beside;
    std::vector<ShownMap> maps;
    for (const std::int64_t layer : layers) {
      for (int head = 0; head < heads; ++head) {
        for (int k = 0; k < classes; ++k) {
          InputMap map = input_map(Method::hydra, {0, 0, 0, 1}, true);
          map.choice.layer = layer;
          map.choice.head = {Head::Kind::one, head};
          map.of_class.index = k;
          maps.push_back(shown_map(map, options));
        }
      }
    }
    std::vector<std::size_t> sizes;
    for (const auto& row : panel_rows(drawn(grey(40, 40), whole(40, 40), maps, options), 128))
      sizes.push_back(row.size());
    return sizes;
  };
  using Sizes = std::vector<std::size_t>;
  const std::vector<std::int64_t> twelve{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  EXPECT_EQ(rows_of_panels(twelve, 3, 1, false), (Sizes{12, 12, 12})) << "a row per class";
  EXPECT_EQ(rows_of_panels({10, 11}, 1, 3, false), (Sizes{2, 2, 2})) << "a row per head";
  EXPECT_EQ(rows_of_panels({10, 11}, 2, 1, true), (Sizes{3, 2})) << "the picture comes once";
  EXPECT_EQ(rows_of_panels({11}, 3, 1, false), (Sizes{3})) << "classes of one layer";
  const Sizes square = rows_of_panels(twelve, 1, 1, false);
  EXPECT_GT(square.size(), 1U) << "one long row is broken";
  EXPECT_LT(square.size(), 12U);
}

TEST(DrawFigureTest, ALayerThatAMethodLacksLeavesItsRowShorter) {
  FigureOptions options;
  options.alpha = 0;
  std::vector<ShownMap> maps;
  for (const auto& [method, layer] :
       {std::pair{Method::attention, 0}, {Method::hydra, 0}, {Method::hydra, 1}}) {
    InputMap map = input_map(method, {0, 0, 0, 1}, true);
    map.choice.layer = layer;
    maps.push_back(shown_map(map, options));
  }
  const auto rows = panel_rows(drawn(grey(40, 40), whole(40, 40), maps, options), 128);
  ASSERT_EQ(rows.size(), 2U);
  ASSERT_EQ(rows[0].size(), 1U);
  ASSERT_EQ(rows[1].size(), 2U);
  EXPECT_EQ(rows[0][0], rows[1][0]);
}

TEST(DrawFigureTest, FramesHaveOneLayout) {
  FigureOptions options;
  options.caption = true;
  const auto frame = [&](const std::string& label, float largest, viz::Size picture,
                         std::size_t count) {
    InputMap map = input_map(Method::attention, {0, 0, 0, largest}, false);
    map.of_class.label = label;
    const std::vector<ShownMap> maps(count, shown_map(map, options));
    return drawn(grey(picture.width, picture.height), whole(picture.width, picture.height), maps,
                 options, viz::Size{160, 120});
  };
  for (const std::size_t count : {1U, 3U}) {
    const viz::Size first = viz::size_of(frame("otter", 1, {160, 120}, count));
    EXPECT_EQ(viz::size_of(frame("otter", 2e-7F, {160, 120}, count)), first);
    EXPECT_EQ(viz::size_of(frame("a class of many words, too many", 0.0125F, {160, 120}, count)),
              first);
    EXPECT_EQ(viz::size_of(frame("otter", 1, {90, 200}, count)), first) << "another picture";
  }
}

TEST(DrawFigureTest, PicturesOfAnotherSizeAreFittedIntoTheFrame) {
  const FigureOptions options;
  const std::vector<ShownMap> maps{
      shown_map(input_map(Method::attention, {0, 0, 0, 9}, false), options)};
  const viz::Canvas figure = drawn(grey(30, 60), whole(30, 60), maps, options, viz::Size{40, 30});
  ASSERT_EQ(viz::size_of(figure), (viz::Size{40, 30}));
  const auto red = [&](int x, int y) {
    return figure.rgb.at(static_cast<std::size_t>((y * 40 + x) * 3));
  };
  // The picture is 15 x 30 pixels in the middle, its hot cell the lower right quarter.
  EXPECT_EQ(red(0, 15), 0);
  EXPECT_EQ(red(39, 15), 0);
  EXPECT_NE(red(12, 0), 0);
  EXPECT_EQ(red(13, 5), 128);
  EXPECT_NE(red(25, 25), 128);
}

TEST(SteadyColorsTest, ColoursFollowSlowlyAndMapsStay) {
  SteadyColors colors;
  std::vector<InputMap> maps{input_map(Method::attention, {0, 1, 2, 4}, false)};
  EXPECT_FLOAT_EQ(colors.shown(maps, {}).front().range.high, 4);
  maps = {input_map(Method::attention, {0, 1, 2, 14}, false)};
  const ShownMap second = colors.shown(maps, {}).front();
  EXPECT_FLOAT_EQ(second.range.high, 5) << "a tenth of the way";
  EXPECT_EQ(second.map.values.back(), 14);
}

TEST(SteadyColorsTest, AnotherClassStartsAnew) {
  for (const Method method : {Method::hydra, Method::attention}) {
    SteadyColors colors;
    std::vector<InputMap> maps{input_map(method, {0, 0, 0, 4}, false)};
    colors.shown(maps, {});
    maps = {input_map(method, {0, 0, 0, 8}, false)};
    maps.front().of_class.index = 357;
    const bool of_class = method == Method::hydra;
    EXPECT_FLOAT_EQ(colors.shown(maps, {}).front().range.high, of_class ? 8 : 4.4F);
  }
}

}  // namespace
}  // namespace hydrascope::app
