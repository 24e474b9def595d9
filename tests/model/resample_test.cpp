// Windows of resized pictures against the whole resized picture, which ATen computes.
#include "model/image/resample.h"

#include "model/transform.h"

#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <random>

namespace hydrascope::image {
namespace resample_test {

Picture noise(std::int64_t height, std::int64_t width) {
  std::mt19937 random(static_cast<unsigned>(height * 7919 + width));
  Picture picture{static_cast<int>(width), static_cast<int>(height), {}};
  for (std::int64_t i = 0; i < height * width * 3; ++i)
    picture.rgb.push_back(
        static_cast<std::uint8_t>(random() % 4 == 0 ? random() % 2 * 255 : random()));
  return picture;
}

/// (height, width, 3) of the whole resized picture.
at::Tensor whole(const Picture& picture, Size size, Interpolation interpolation) {
  at::Tensor pixels = at::from_blob(const_cast<std::uint8_t*>(picture.rgb.data()),
                                    {picture.height, picture.width, 3}, at::kByte)
                          .permute({2, 0, 1})
                          .unsqueeze(0);
  const auto resize = [&](std::int64_t height, std::int64_t width) {
    pixels = interpolation == Interpolation::bicubic
                 ? at::_upsample_bicubic2d_aa(pixels, {height, width}, false)
                 : at::_upsample_bilinear2d_aa(pixels, {height, width}, false);
  };
  if (resamples_columns_first({picture.height, picture.width}, size))
    resize(size.height, picture.width);
  resize(size.height, size.width);
  return pixels.squeeze(0).permute({1, 2, 0}).contiguous();
}

void expect_window(const Picture& picture, Size size, const Window& window,
                   Interpolation interpolation) {
  SCOPED_TRACE(::testing::Message()
               << picture.height << "x" << picture.width << " to " << size.height << "x"
               << size.width << ", " << name(interpolation) << " at " << window.top << ", "
               << window.left);
  at::Tensor found = at::zeros({window.height, window.width, 3}, at::kByte);
  resample(picture, size, window, interpolation, /*is_grey=*/false,
           found.mutable_data_ptr<std::uint8_t>(), window.width * 3);
  const at::Tensor expected = whole(picture, size, interpolation)
                                  .narrow(0, window.top, window.height)
                                  .narrow(1, window.left, window.width);
  EXPECT_TRUE(at::equal(found, expected))
      << (found.to(at::kInt) - expected.to(at::kInt)).abs().max().item<int>();
}

// Enlarged and reduced along either edge or both, by small and large factors, in both orders of the
// passes; windows at the ends and within.
TEST(Resample, WindowsAreThoseOfTheWholeResizedPicture) {
  for (const auto interpolation : {Interpolation::bicubic, Interpolation::bilinear}) {
    for (const auto& [from, size] : {std::pair<Size, Size>{{60, 85}, {27, 38}},
                                     {{97, 51}, {50, 26}},
                                     {{9, 7}, {31, 24}},
                                     {{1, 700}, {9, 6300}},
                                     {{700, 1}, {6300, 9}},
                                     {{2, 333}, {15, 2497}},
                                     {{150, 31}, {24, 24}},
                                     {{31, 150}, {24, 24}},
                                     {{400, 3}, {20, 30}},
                                     {{40, 64}, {40, 31}},
                                     {{40, 64}, {21, 64}},
                                     {{1024, 768}, {256, 192}},
                                     {{333, 500}, {248, 372}}}) {
      const Picture picture = noise(from.height, from.width);
      const std::int64_t height = std::max<std::int64_t>(size.height * 7 / 8, 1);
      const std::int64_t width = std::min<std::int64_t>(size.width * 7 / 8, 40);
      for (const std::int64_t top : {std::int64_t{0}, size.height - height}) {
        for (const std::int64_t left :
             {std::int64_t{0}, (size.width - width) / 2, size.width - width})
          expect_window(picture, size, {top, left, height, width}, interpolation);
      }
      expect_window(picture, size, {0, 0, size.height, size.width}, interpolation);
    }
  }
}

// A copy of the picture in grey, Pillow's L: (19595 R + 38470 G + 7471 B + 2^15) >> 16.
TEST(Resample, GreyIsTakenBeforeResizing) {
  for (const auto interpolation :
       {Interpolation::bicubic, Interpolation::bilinear, Interpolation::nearest}) {
    for (const auto& [from, size] : {std::pair<Size, Size>{{60, 85}, {27, 38}},
                                     {{150, 31}, {24, 24}},
                                     {{40, 64}, {21, 64}},
                                     {{40, 64}, {40, 31}},
                                     {{8, 8}, {8, 8}}}) {
      const Picture picture = noise(from.height, from.width);
      Picture grey = picture;
      for (std::size_t i = 0; i < grey.rgb.size(); i += 3) {
        const int luma = (19595 * picture.rgb[i] + 38470 * picture.rgb[i + 1] +
                          7471 * picture.rgb[i + 2] + 32768) >>
                         16;
        std::fill_n(grey.rgb.begin() + static_cast<std::ptrdiff_t>(i), 3,
                    static_cast<std::uint8_t>(luma));
      }
      const Window window{1, 2, size.height - 2, size.width - 3};
      const auto resampled = [&](const Picture& of, bool is_grey) {
        std::vector<std::uint8_t> rgb(static_cast<std::size_t>(window.height * window.width * 3));
        resample(of, size, window, interpolation, is_grey, rgb.data(), window.width * 3);
        return rgb;
      };
      EXPECT_EQ(resampled(picture, true), resampled(grey, false)) << name(interpolation);
    }
  }
}

// A crop of what would have 2 million columns, or 5 million rows.
TEST(Resample, ThinPicturesHaveCrops) {
  const Picture wide = noise(1, 8100);
  const at::Tensor input = apply_transform({}, wide);
  EXPECT_EQ(input.sizes(), (at::IntArrayRef{3, 224, 224}));
  // Each pixel is 256 wide; the crop shows 112 columns on either side of the border between two. Its
  // first column is 0.0645 of a pixel beyond the middle of pixel 4049, so that Keys' cubic gives
  // 20 + 180 * (0.0402 - 0.0020).
  Picture two{8100, 1, std::vector<std::uint8_t>(3 * 8100, 200)};
  std::fill_n(two.rgb.begin(), 3 * 4050, std::uint8_t{20});
  const at::Tensor pixels = transform_pixels({}, two).to(at::kInt);
  EXPECT_EQ(pixels[0][0][0].item<int>(), 27);
  EXPECT_EQ(pixels[223][223][2].item<int>(), 193);
  EXPECT_EQ(pixels[100][111][1].item<int>() + pixels[100][112][1].item<int>(), 220);
  Picture tall{1, 65535, std::vector<std::uint8_t>(3 * 65535, 7)};
  EXPECT_TRUE(transform_pixels({}, tall).eq(7).all().item<bool>());
}

TEST(Halved, IsTheMeanOfFourPixelsRoundedHalfUp) {
  const Picture picture = noise(7, 9);
  const Picture half = halved(picture);
  ASSERT_EQ(half.width, 4);
  ASSERT_EQ(half.height, 3);
  const auto at = [&](std::size_t row, std::size_t column, std::size_t channel) {
    return static_cast<int>(picture.rgb[(row * 9 + column) * 3 + channel]);
  };
  std::size_t next = 0;
  for (std::size_t row = 0; row < 6; row += 2)
    for (std::size_t column = 0; column < 8; column += 2)
      for (std::size_t c = 0; c < 3; ++c)
        EXPECT_EQ(half.rgb[next++], (at(row, column, c) + at(row, column + 1, c) +
                                     at(row + 1, column, c) + at(row + 1, column + 1, c) + 2) /
                                        4);
  EXPECT_EQ(next, half.rgb.size());
}

}  // namespace resample_test
}  // namespace hydrascope::image
