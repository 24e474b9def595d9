#include "viz/text/font.h"

#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"
#include "tests/viz/picture/pixel_colors.h"
#include "tests/viz/text/bundled_font.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace hydrascope::viz {
namespace {

constexpr Color kPaper{255, 255, 255};
constexpr Color kInk{0, 0, 0};

bool is_ink(Color color) { return color != kPaper; }

Canvas drawn(const std::string& text, double pixels = 20) {
  const TextSize size = bundled_font().measure(text, pixels);
  Canvas canvas = filled(size.width + 20, size.height + 20, kPaper);
  bundled_font().draw(canvas, text, 10, 10, pixels, kInk);
  return canvas;
}

TEST(FontTest, InkLiesWithinTheMeasuredBox) {
  for (const std::string text : {"Hg", "jfÄÅẪ", "V", "AVAVA.", "ſ⁄ƒ", "é Ω Ж … → ≈", "ÿ̂Ǻ"}) {
    for (const double pixels : {9.0, 12.5, 31.0, 120.0}) {
      const TextSize size = bundled_font().measure(text, pixels);
      const Canvas canvas = drawn(text, pixels);
      EXPECT_GT(count_pixels(canvas, is_ink), 0) << text;
      for (int y = 0; y < canvas.height; ++y)
        for (int x = 0; x < canvas.width; ++x)
          ASSERT_TRUE((x >= 10 && x < 10 + size.width && y >= 10 && y < 10 + size.height) ||
                      !is_ink(color_at(canvas, x, y)))
              << text << " at " << pixels << ": " << x << ", " << y;
    }
  }
}

TEST(FontTest, LinesOfOrdinaryTextAreAlikeAndGrowWithThePixels) {
  const TextSize small = bundled_font().measure("otter", 20);
  EXPECT_EQ(small.height, bundled_font().measure("Ágy", 20).height);
  EXPECT_EQ(small.height, bundled_font().measure("", 20).height);
  EXPECT_EQ(bundled_font().measure("", 20).width, 0);
  const TextSize large = bundled_font().measure("otter", 200);
  EXPECT_NEAR(large.width, 10 * small.width, 12);
  EXPECT_NEAR(large.height, 10 * small.height, 20);
  EXPECT_GT(small.baseline, small.height / 2);
  EXPECT_LT(small.baseline, small.height);
}

TEST(FontTest, DrawReturnsWhereTheTextEnds) {
  Canvas canvas = filled(200, 40, kPaper);
  EXPECT_EQ(bundled_font().draw(canvas, "heat", 7, 3, 16, kInk),
            7 + bundled_font().measure("heat", 16).width);
}

TEST(FontTest, TextIsClippedAtTheCanvas) {
  for (const auto& [x, y] : {std::pair{-30, 5}, {5, -12}, {40, 30}, {500, 500}, {-500, -500}}) {
    Canvas canvas = filled(60, 36, kPaper);
    bundled_font().draw(canvas, "clipped", x, y, 24, kInk);
    EXPECT_EQ(canvas.rgb.size(), 60U * 36 * 3);
  }
}

TEST(FontTest, LettersOfOtherAlphabetsAreTheirOwn) {
  const Canvas replaced = drawn("\uFFFD");
  for (const std::string text : {"é", "Ω", "Ж", "ő", "→", "≤", "⁻"})
    EXPECT_NE(drawn(text).rgb, replaced.rgb) << text;
  EXPECT_NE(drawn("é").rgb, drawn("e").rgb);
}

TEST(FontTest, WhatTheFontLacksAndWhatIsNoUtf8IsReplaced) {
  const Canvas replaced = drawn("a\uFFFDb");
  EXPECT_EQ(drawn("a漢b").rgb, replaced.rgb);
  EXPECT_EQ(drawn("a\xFF"
                  "b")
                .rgb,
            replaced.rgb);
  EXPECT_EQ(drawn("a\U0001F9A6"
                  "b")
                .rgb,
            replaced.rgb);
  EXPECT_EQ(drawn("a\nb\t").rgb, drawn("a b ").rgb) << "one line";
}

TEST(FontTest, FitCutsBetweenCharactersAndSaysSo) {
  const Font& font = bundled_font();
  const std::string name = "Äußerst lange Bezeichnung für einen Fischotter";
  EXPECT_EQ(font.fit(name, 14, font.measure(name, 14).width), name);
  const std::string cut = font.fit(name, 14, 120);
  EXPECT_LE(font.measure(cut, 14).width, 120);
  EXPECT_TRUE(cut.ends_with("\u2026")) << cut;
  EXPECT_EQ(cut.find("\uFFFD"), std::string::npos);
  const std::string kept = cut.substr(0, cut.size() - std::string("\u2026").size());
  EXPECT_TRUE(name.starts_with(kept)) << cut;
  EXPECT_GT(kept.size(), 8U);
  EXPECT_GT(font.measure(name.substr(0, kept.size() + 2) + "\u2026", 14).width, 120)
      << "one more would have had room";
  EXPECT_EQ(font.fit("wide", 14, 3), "") << "no room for anything";
  EXPECT_EQ(font.fit("", 14, 0), "");
}

TEST(FontTest, FilesThatAreNoFontsAreRefused) {
  const testing::TemporaryFolder folder;
  EXPECT_ERROR(Font(folder.path() / "none.ttf"), not_found, "none.ttf");
  EXPECT_ERROR(Font(folder.path()), unreadable, "Is a directory");
  EXPECT_ERROR(Font(folder.write("empty.ttf")), decode_failed, "empty.ttf");
  EXPECT_ERROR(Font(folder.write("text.ttf", "no font, but long enough for a header")),
               decode_failed, "text.ttf");
}

}  // namespace
}  // namespace hydrascope::viz
