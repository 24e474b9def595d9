#include "viz/figure/figure.h"

#include "tests/error_matchers.h"
#include "tests/viz/picture/pixel_colors.h"
#include "tests/viz/text/bundled_font.h"
#include "viz/text/text_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::viz {
namespace figure_test {

constexpr Color kWhite{255, 255, 255};
constexpr Color kBlue{10, 20, 230};
constexpr Color kGreen{10, 220, 30};

struct Box {
  int left = 1 << 30;
  int top = 1 << 30;
  int right = 0;
  int bottom = 0;
  int pixels = 0;
};

/// Around all pixels that `wanted` holds for.
template <class Wanted>
Box box_of(const Canvas& canvas, Wanted wanted) {
  Box box;
  for (int y = 0; y < canvas.height; ++y) {
    for (int x = 0; x < canvas.width; ++x) {
      if (!wanted(color_at(canvas, x, y))) continue;
      box.left = std::min(box.left, x);
      box.top = std::min(box.top, y);
      box.right = std::max(box.right, x + 1);
      box.bottom = std::max(box.bottom, y + 1);
      ++box.pixels;
    }
  }
  return box;
}

Box box_of(const Canvas& canvas, Color color) {
  return box_of(canvas, [color](Color c) { return c == color; });
}

Box ink_of(const Canvas& canvas, int left, int top, int right, int bottom) {
  Canvas part = filled(right - left, bottom - top, kWhite);
  paste(part, canvas, -left, -top);
  return box_of(part, [](Color c) { return c != kWhite; });
}

TEST(FigureTest, APictureAloneIsItself) {
  const Canvas picture = filled(30, 20, kBlue);
  EXPECT_EQ(make_figure({{picture, {}}}, {}, bundled_font()).rgb, picture.rgb);
  FigureStyle style;
  style.panel_width = 15;
  EXPECT_EQ(make_figure({{picture, {}}}, style, bundled_font()).height, 10);
  EXPECT_ERROR(make_figure({}, {}, bundled_font()), empty, "panel");
}

TEST(FigureTest, PicturesKeepTheirPixelsSideBySide) {
  FigureStyle style;
  style.columns = 2;
  const Canvas figure =
      make_figure({{filled(80, 60, kBlue), {}}, {filled(80, 60, kGreen), {"a caption"}}}, style,
                  bundled_font());
  const Box left = box_of(figure, kBlue);
  const Box right = box_of(figure, kGreen);
  EXPECT_EQ(left.pixels, 80 * 60);
  EXPECT_EQ(right.pixels, 80 * 60);
  EXPECT_EQ(left.right - left.left, 80);
  EXPECT_EQ(left.top, right.top);
  EXPECT_GT(right.left, left.right);
  EXPECT_GT(figure.width, right.right);
  const Box caption = ink_of(figure, right.left, right.bottom, figure.width, figure.height);
  EXPECT_GT(caption.pixels, 50) << "the caption is below its picture";
  EXPECT_EQ(ink_of(figure, 0, left.bottom, right.left, figure.height).pixels, 0);
}

TEST(FigureTest, CaptionsAreBrokenIntoLinesAndNotCut) {
  const std::string name = "African hunting dog, hyena dog, Cape hunting dog, Lycaon pictus 93.1 %";
  const TextBlock block({name}, bundled_font(), 12, 224);
  ASSERT_GE(block.lines().size(), 2U);
  std::string joined;
  for (const std::string& line : block.lines()) {
    EXPECT_LE(bundled_font().measure(line, 12).width, 224);
    joined += (joined.empty() ? "" : " ") + line;
  }
  EXPECT_EQ(joined, name);
  EXPECT_LE(block.width(), 224);

  const TextBlock narrow({name}, bundled_font(), 12, 60);
  EXPECT_EQ(narrow.lines().size(), 3U);
  EXPECT_TRUE(narrow.lines().back().ends_with("\u2026"));
  const TextBlock word({"Rindfleischetikettierungsgesetz"}, bundled_font(), 12, 60);
  ASSERT_EQ(word.lines().size(), 1U);
  EXPECT_TRUE(word.lines()[0].ends_with("\u2026"));
}

TEST(FigureTest, InkKeepsItsDistanceFromTheBorder) {
  for (const auto& [width, height] : {std::pair{32, 18}, {224, 224}, {1920, 1080}}) {
    Panel panel{filled(width, height, kBlue),
                {"otter, Äg 93.1 %", "a second line that is somewhat longer"}};
    const Canvas figure = make_figure({panel, panel}, {}, bundled_font());
    const Box ink = box_of(figure, [](Color c) { return c != kWhite; });
    EXPECT_GE(ink.left, 4);
    EXPECT_GE(ink.top, 4);
    EXPECT_LE(ink.right, figure.width - 4);
    EXPECT_LE(ink.bottom, figure.height - 4);
    EXPECT_EQ(box_of(figure, kBlue).pixels, 2 * width * height) << "nothing lies over a picture";
  }
}

TEST(FigureTest, ContactSheetsFillRows) {
  const std::vector<Panel> panels(12, Panel{filled(100, 100, kBlue), {"layer"}});
  const Canvas square = make_figure(panels, {}, bundled_font());
  EXPECT_EQ(box_of(square, kBlue).pixels, 12 * 100 * 100);
  EXPECT_LT(square.width, 5 * 120);
  EXPECT_LT(square.height, 5 * 130);
  FigureStyle style;
  style.columns = 6;
  const Canvas wide = make_figure(panels, style, bundled_font());
  EXPECT_GT(wide.width, 2 * wide.height);
  style.columns = 99;
  EXPECT_LT(make_figure(panels, style, bundled_font()).height, 2 * 100) << "one row";
}

TEST(FigureTest, TextGrowsWithThePicture) {
  const auto caption_height = [](int width, int height) {
    const Canvas figure = make_figure({{filled(width, height, kBlue), {"H"}}}, {}, bundled_font());
    const Box picture = box_of(figure, kBlue);
    const Box ink = ink_of(figure, 0, picture.bottom, figure.width, figure.height);
    return ink.bottom - ink.top;
  };
  EXPECT_GE(caption_height(224, 224), 8);
  EXPECT_LE(caption_height(224, 224), 14);
  EXPECT_GE(caption_height(3840, 2160), 30);
}

TEST(FigureTest, SteadyFiguresDependOnNoWords) {
  const auto drawn = [](int width, const std::string& name, bool steady) {
    FigureStyle style;
    style.steady = steady;
    const Panel panel{filled(width, 150, kBlue), {name, "how"}};
    return make_figure({panel, panel, panel}, style, bundled_font());
  };
  const std::string long_name = "a name of many words that has no room in a line of its picture";
  for (const int width : {40, 200}) {
    const Canvas plain = drawn(width, "otter", true);
    const Canvas figure = drawn(width, long_name, true);
    EXPECT_EQ(figure.width, plain.width);
    EXPECT_EQ(figure.height, plain.height);
    EXPECT_EQ(box_of(figure, kBlue).right, box_of(plain, kBlue).right);
    EXPECT_NE(drawn(width, long_name, false).height, drawn(width, "otter", false).height)
        << "else all words are shown";
  }
}

TEST(FigureTest, FiguresOfAnImpossibleSizeAreRefused) {
  FigureStyle style;
  style.columns = 1;
  std::vector<Panel> panels(6, Panel{filled(8, 7000, kBlue), {"x"}});
  panels.push_back({filled(7000, 8, kBlue), {"x"}});
  EXPECT_ERROR(make_figure(panels, style, bundled_font()), too_large, "2^28");
}

}  // namespace figure_test
}  // namespace hydrascope::viz
