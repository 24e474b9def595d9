#include "viz/scale/colormap.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string>

namespace hydrascope::viz {
namespace {

struct Oklab {
  double lightness;
  double a;
  double b;
};

/// Ottosson 2020, from sRGB.
Oklab oklab(const Colormap& map, std::size_t entry) {
  const auto linear = [&](std::size_t channel) {
    const double value = map.colors[3 * entry + channel] / 255.0;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  const double r = linear(0);
  const double g = linear(1);
  const double b = linear(2);
  const double l = std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const double m = std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const double s = std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

TEST(ColormapTest, AllAreFoundByName) {
  std::vector<std::string> names;
  for (const Colormap& map : colormaps()) {
    names.emplace_back(map.name);
    EXPECT_EQ(find_colormap_or_null(map.name), &map);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"viridis", "inferno", "magma", "cividis", "turbo",
                                             "blue-orange"}));
  EXPECT_EQ(find_colormap_or_null("jet"), nullptr);
  ASSERT_NE(find_colormap_or_null(kDefaultColormap), nullptr);
  EXPECT_FALSE(find_colormap_or_null(kDefaultColormap)->diverging);
  ASSERT_NE(find_colormap_or_null(kDefaultDivergingColormap), nullptr);
  EXPECT_TRUE(find_colormap_or_null(kDefaultDivergingColormap)->diverging);
}

TEST(ColormapTest, EndsAreThePublishedColours) {
  const auto ends = [](std::string_view name) {
    const Colormap& map = *find_colormap_or_null(name);
    return std::array<int, 6>{map.colors[0],   map.colors[1],   map.colors[2],
                              map.colors[765], map.colors[766], map.colors[767]};
  };
  EXPECT_EQ(ends("viridis"), (std::array{0x44, 0x01, 0x54, 0xfd, 0xe7, 0x25}));
  EXPECT_EQ(ends("inferno"), (std::array{0x00, 0x00, 0x04, 0xfc, 0xff, 0xa4}));
  EXPECT_EQ(ends("magma"), (std::array{0x00, 0x00, 0x04, 0xfc, 0xfd, 0xbf}));
  EXPECT_EQ(ends("cividis"), (std::array{0x00, 0x22, 0x4e, 0xfe, 0xe8, 0x38}));
  EXPECT_EQ(ends("turbo"), (std::array{0x30, 0x12, 0x3b, 0x7a, 0x04, 0x03}));
}

TEST(ColormapTest, SequentialMapsBecomeLighterAllTheWay) {
  for (const std::string_view name : {"viridis", "inferno", "magma", "cividis"}) {
    const Colormap& map = *find_colormap_or_null(name);
    for (std::size_t i = 1; i < 256; ++i)
      // Colours of 8 bits: lightness is known to some thousandths.
      EXPECT_GT(oklab(map, i).lightness, oklab(map, i - 1).lightness - 2e-3) << name << " " << i;
    for (std::size_t i = 8; i < 256; ++i)
      EXPECT_GT(oklab(map, i).lightness, oklab(map, i - 8).lightness) << name << " " << i;
  }
}

TEST(ColormapTest, TheDivergingMapIsSymmetricAroundANeutralMiddle) {
  const Colormap& map = *find_colormap_or_null(kDefaultDivergingColormap);
  for (std::size_t i = 0; i < 128; ++i) {
    const Oklab low = oklab(map, i);
    const Oklab high = oklab(map, 255 - i);
    EXPECT_NEAR(low.lightness, high.lightness, 4e-3) << i;
    EXPECT_NEAR(std::hypot(low.a, low.b), std::hypot(high.a, high.b), 6e-3) << i;
  }
  for (const std::size_t middle : {std::size_t{127}, std::size_t{128}}) {
    EXPECT_LT(std::hypot(oklab(map, middle).a, oklab(map, middle).b), 5e-3);
    EXPECT_GT(oklab(map, middle).lightness, 0.93);
  }
  for (std::size_t i = 8; i < 128; ++i)
    EXPECT_GT(oklab(map, i).lightness, oklab(map, i - 8).lightness) << i;
  EXPECT_LT(oklab(map, 0).b, -0.1) << "blue";
  EXPECT_GT(oklab(map, 255).b, 0.08) << "orange";
}

// The range of the overlay's promise of exact rounding.
TEST(ColormapTest, NeighboursDifferLittle) {
  for (const Colormap& map : colormaps())
    for (std::size_t i = 3; i < map.colors.size(); ++i)
      EXPECT_LE(std::abs(map.colors[i] - map.colors[i - 3]), 16) << map.name << " " << i / 3;
}

}  // namespace
}  // namespace hydrascope::viz
