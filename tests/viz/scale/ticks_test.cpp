#include "viz/scale/ticks.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace hydrascope::viz {
namespace {

using Texts = std::vector<std::string>;

Texts texts(const ValueRange& range, int most) {
  Texts all;
  for (const Tick& tick : ticks_of(range, most).ticks) all.push_back(tick.text);
  return all;
}

TEST(TicksTest, NumbersHaveTheDigitsThatTellThemApart) {
  EXPECT_EQ(texts({0, 1}, 6), (Texts{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_EQ(texts({0, 1}, 5), (Texts{"0.00", "0.25", "0.50", "0.75", "1.00"}));
  EXPECT_EQ(texts({0.0031F, 0.0289F}, 6), (Texts{"0.005", "0.010", "0.015", "0.020", "0.025"}));
  EXPECT_EQ(texts({120, 960}, 5), (Texts{"200", "400", "600", "800"}));
  EXPECT_EQ(texts({0.11F, 0.19F}, 3), (Texts{"0.125", "0.150", "0.175"}));
}

TEST(TicksTest, MarksAroundZeroAreSymmetric) {
  EXPECT_EQ(texts({-0.37F, 0.37F}, 5), (Texts{"\u22120.2", "0.0", "0.2"}));
  EXPECT_EQ(texts({-1, 1}, 5), (Texts{"\u22121.0", "\u22120.5", "0.0", "0.5", "1.0"}));
  for (const float most : {0.013F, 0.7F, 1.0F, 3.3F, 99.0F, 4321.0F, 2e-7F, 8e9F}) {
    for (const int count : {2, 3, 5, 9}) {
      const Ticks ticks = ticks_of({-most, most}, count);
      ASSERT_GE(ticks.ticks.size(), 1U);
      ASSERT_LE(ticks.ticks.size(), static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < ticks.ticks.size(); ++i)
        EXPECT_EQ(ticks.ticks[i].value, -ticks.ticks[ticks.ticks.size() - 1 - i].value);
    }
  }
}

TEST(TicksTest, VerySmallAndVeryLargeNumbersShareAFactor) {
  const Ticks small = ticks_of({0, 3.1e-5F}, 4);
  EXPECT_EQ(small.factor(), "×10⁻⁵");
  EXPECT_EQ(small.ticks.back().text, "3");
  EXPECT_NEAR(small.ticks.back().value, 3e-5, 1e-11);
  EXPECT_EQ(ticks_of({-2.5e12F, 1}, 4).factor(), "×10¹²");
  EXPECT_EQ(ticks_of({0, 0.5F}, 4).factor(), "");
}

TEST(TicksTest, DecadesHaveThreeMarks) {
  Texts all;
  for (const Tick& tick : decade_ticks({-0.8F, 1.5F}).ticks) all.push_back(tick.text);
  EXPECT_EQ(all, (Texts{"0.2", "0.5", "1", "2", "5", "10", "20"}));
}

TEST(TicksTest, TicksLieWithinTheRange) {
  for (const ValueRange range : {ValueRange{0.1F, 0.3F},
                                 {-1e-8F, 5e-9F},
                                 {1e30F, 3e38F},
                                 {-5, -3},
                                 {1, 1.0001F},
                                 {1e-40F, 1e-38F}}) {
    const Ticks ticks = ticks_of(range, 6);
    EXPECT_GE(ticks.ticks.size(), 2U) << range.low;
    EXPECT_LE(ticks.ticks.size(), 6U) << range.low;
    for (const Tick& tick : ticks.ticks) {
      EXPECT_GE(tick.value, double{range.low});
      EXPECT_LE(tick.value, double{range.high});
    }
  }
}

TEST(TicksTest, AValueAloneIsItsOwnMark) {
  EXPECT_EQ(texts({0, 0}, 5), (Texts{"0"}));
  EXPECT_EQ(texts({0.25F, 0.25F}, 5), (Texts{"0.250"}));
  EXPECT_EQ(texts({2, 1}, 5), (Texts{"2.000"}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(ticks_of({nan, nan}, 5).ticks.empty());
}

}  // namespace
}  // namespace hydrascope::viz
