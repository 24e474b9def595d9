#include "app/visualize/heat_figure.h"

#include "app/visualize/steady_maps.h"
#include "kernels/error.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hydrascope::app {
namespace {

using model::explain::Method;

InputMap input_map(Method method, std::vector<float> values, bool is_signed) {
  InputMap map;
  map.choice = {method, 11, {}, ""};
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
  EXPECT_EQ(array_name(map), "grad-rollout.layer11.head-mean.class360");
  EXPECT_EQ(caption(map, LabelType::name),
            (std::vector<std::string>{"otter 67.5 %", "grad-rollout, layer 11"}));
  EXPECT_EQ(caption(map, LabelType::id).front(), "n02444819 67.5 %");
  EXPECT_EQ(caption(map, LabelType::index).front(), "360 67.5 %");
  map.choice.head = {Head::Kind::one, 2};
  EXPECT_EQ(array_name(map), "grad-rollout.layer11.head-2.class360");
  EXPECT_EQ(caption(map, LabelType::name).back(), "grad-rollout, layer 11, head 2");
}

TEST(InputMapTest, NotesAreJoinedAndRulesGathered) {
  InputMap map = input_map(Method::rollout, {0, 1, 2, 3}, false);
  EXPECT_EQ(note_of(map), "");
  map.choice.reason = "rows are non-negative";
  map.note = "approximate";
  map.rules = {"softmax map", "softmax map", "skipped"};
  EXPECT_EQ(
      note_of(map),
      "auto took rollout: rows are non-negative; approximate; layers 0-1 softmax map, layer 2 "
      "skipped");
}

TEST(ShownMapTest, TwoSignsAreShownAroundZero) {
  const ShownMap shown = shown_map(input_map(Method::hydra, {-1, 0, 2, 3}, true), {});
  EXPECT_TRUE(shown.colormap->diverging);
  EXPECT_FLOAT_EQ(shown.range.low, -3);
  EXPECT_FLOAT_EQ(shown.range.high, 3);
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
  FigureOptions positive;
  positive.sign = viz::Sign::positive;
  const ShownMap half = shown_map(input_map(Method::hydra, {-1, 0, 2, 3}, true), positive);
  EXPECT_FALSE(half.colormap->diverging);
  EXPECT_FLOAT_EQ(half.range.low, 0);
}

TEST(DrawFigureTest, OneMapIsThePictureAtItsOwnSize) {
  const std::vector<ShownMap> maps{
      shown_map(input_map(Method::attention, {0, 0, 0, 9}, false), {})};
  FigureOptions options;
  options.sampling = viz::Sampling::nearest;
  const viz::Canvas figure = draw_figure(grey(40, 30), whole(40, 30), maps, options, nullptr);
  EXPECT_EQ(figure.width, 40);
  EXPECT_EQ(figure.height, 30);
  const auto red = [&](int x, int y) {
    return figure.rgb.at(static_cast<std::size_t>((y * 40 + x) * 3));
  };
  EXPECT_EQ(red(0, 0), red(19, 14)) << "one cell, one colour";
  EXPECT_NE(red(0, 0), red(20, 15)) << "the hot cell begins in the middle";
  EXPECT_EQ(red(20, 15), red(39, 29));
}

TEST(DrawFigureTest, AnOutlineSurroundsTheHeat) {
  const std::vector<ShownMap> maps{
      shown_map(input_map(Method::attention, {0, 0, 0, 9}, false), {})};
  FigureOptions plain;
  plain.alpha = 0;
  FigureOptions outlined = plain;
  outlined.outlined_mass = 0.5;
  const viz::Canvas without = draw_figure(grey(40, 30), whole(40, 30), maps, plain, nullptr);
  const viz::Canvas with = draw_figure(grey(40, 30), whole(40, 30), maps, outlined, nullptr);
  EXPECT_EQ(without.rgb, grey(40, 30).rgb) << "an alpha of 0 is the picture";
  EXPECT_NE(with.rgb, without.rgb);
  EXPECT_EQ(with.rgb.at(0), 128) << "far from the hot cell nothing changes";
}

TEST(DrawFigureTest, FramesHaveOneLayout) {
  const viz::Font font({HYDRASCOPE_SOURCE_DIR "/assets/fonts/DejaVuSans-subset.ttf"});
  FigureOptions options;
  options.caption = true;
  options.colorbar = true;
  const auto frame = [&](const std::string& label, float largest, viz::Size picture,
                         std::size_t count) {
    InputMap map = input_map(Method::attention, {0, 0, 0, largest}, false);
    map.of_class.label = label;
    const std::vector<ShownMap> maps(count, shown_map(map, options));
    return draw_figure(grey(picture.width, picture.height), whole(picture.width, picture.height),
                       maps, options, &font, viz::Size{160, 120});
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
  FigureOptions options;
  options.sampling = viz::Sampling::nearest;
  const std::vector<ShownMap> maps{
      shown_map(input_map(Method::attention, {0, 0, 0, 9}, false), options)};
  const viz::Canvas figure =
      draw_figure(grey(30, 60), whole(30, 60), maps, options, nullptr, viz::Size{40, 30});
  ASSERT_EQ(viz::size_of(figure), (viz::Size{40, 30}));
  const auto red = [&](int x, int y) {
    return figure.rgb.at(static_cast<std::size_t>((y * 40 + x) * 3));
  };
  // The picture is 15 x 30 pixels in the middle, its hot cell the lower right quarter.
  EXPECT_EQ(red(0, 15), 0);
  EXPECT_EQ(red(39, 15), 0);
  EXPECT_NE(red(12, 0), 0);
  EXPECT_EQ(red(13, 5), red(25, 5));
  EXPECT_NE(red(25, 5), red(25, 25));
}

TEST(DrawFigureTest, TextNeedsAFont) {
  const std::vector<ShownMap> maps{
      shown_map(input_map(Method::attention, {0, 0, 0, 9}, false), {})};
  FigureOptions options;
  options.caption = true;
  EXPECT_TRUE(options.has_extras(1));
  EXPECT_ERROR(draw_figure(grey(4, 4), whole(4, 4), maps, options, nullptr), internal, "font");
}

TEST(SteadyMapsTest, ColoursFollowSlowlyAndMapsAsAsked) {
  SteadyMaps plain(0);
  std::vector<InputMap> first{input_map(Method::attention, {0, 1, 2, 4}, false)};
  EXPECT_FLOAT_EQ(plain.add(first, {}).front().range.high, 4);
  std::vector<InputMap> second{input_map(Method::attention, {0, 1, 2, 14}, false)};
  EXPECT_FLOAT_EQ(plain.add(second, {}).front().range.high, 5) << "a tenth of the way";
  EXPECT_EQ(second.front().map.values.back(), 14) << "the map itself is not smoothed";

  SteadyMaps smooth(0.5);
  first = {input_map(Method::attention, {0, 0, 0, 4}, false)};
  smooth.add(first, {});
  second = {input_map(Method::attention, {0, 0, 0, 8}, false)};
  EXPECT_FLOAT_EQ(smooth.add(second, {}).front().map.values.back(), 6);
}

TEST(SteadyMapsTest, AnotherClassStartsAnew) {
  for (const Method method : {Method::hydra, Method::attention}) {
    SteadyMaps steady(0.5);
    std::vector<InputMap> maps{input_map(method, {0, 0, 0, 4}, false)};
    steady.add(maps, {});
    maps = {input_map(method, {0, 0, 0, 8}, false)};
    maps.front().of_class.index = 357;
    const ShownMap shown = steady.add(maps, {}).front();
    const bool of_class = method == Method::hydra;
    EXPECT_FLOAT_EQ(shown.map.values.back(), of_class ? 8 : 6);
    EXPECT_FLOAT_EQ(shown.range.high, of_class ? 8 : 4.2F);
  }
}

}  // namespace
}  // namespace hydrascope::app
