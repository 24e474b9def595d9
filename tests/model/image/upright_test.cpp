#include "model/image/upright.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace hydrascope::image {
namespace {

/// Colours by their place, of which neighbours along both edges differ.
std::uint8_t sample_at(std::size_t y, std::size_t x, std::size_t c) {
  return static_cast<std::uint8_t>(x * 7 + y * 13 + x * y / 5 + c * 91);
}

// Above 48 MB pictures are turned where they are.
TEST(Upright, LargePicturesAreTurnedInPlace) {
  for (const auto& [height, width] : {std::pair{4100, 4200}, std::pair{3, 5700000}}) {
    SCOPED_TRACE(width);
    Picture picture{width, height, {}};
    const auto rows = static_cast<std::size_t>(height);
    const auto columns = static_cast<std::size_t>(width);
    picture.rgb.reserve(rows * columns * 3);
    for (std::size_t y = 0; y < rows; ++y) {
      for (std::size_t x = 0; x < columns; ++x) {
        for (std::size_t c = 0; c < 3; ++c) picture.rgb.push_back(sample_at(y, x, c));
      }
    }
    ASSERT_GT(picture.rgb.size(), std::size_t{48} << 20);
    const std::uint8_t* memory = picture.rgb.data();
    make_upright(picture, 6);
    EXPECT_EQ(picture.rgb.data(), memory);
    ASSERT_EQ(picture.width, height);
    ASSERT_EQ(picture.height, width);
    std::size_t wrong = 0;
    for (std::size_t y = 0; y < rows; ++y) {
      for (std::size_t x = 0; x < columns; ++x) {
        const std::uint8_t* pixel = picture.rgb.data() + (x * rows + rows - 1 - y) * 3;
        for (std::size_t c = 0; c < 3; ++c) wrong += pixel[c] != sample_at(y, x, c) ? 1 : 0;
      }
    }
    EXPECT_EQ(wrong, 0U);
  }
}

}  // namespace
}  // namespace hydrascope::image
