#include "model/training/data/crop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace hydrascope::model::training {
namespace crop_test {

using Interval = std::array<double, 2>;
constexpr Interval kScale{0.08, 1.0};
constexpr Interval kRatio{3.0 / 4, 4.0 / 3};

/// Pixel (y, x) is (10 y + x, 100 + y, 200 + x).
image::Picture numbered(int height, int width) {
  image::Picture picture{width, height, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (const int value : {10 * y + x, 100 + y, 200 + x})
        picture.rgb.push_back(static_cast<std::uint8_t>(value));
  return picture;
}

TEST(RandomResizedCrop, StaysWithinThePictureAndTheLimits) {
  const image::Size picture{300, 400};
  RandomStream stream{1};
  std::set<std::int64_t> tops;
  double smallest = 1;
  double largest = 0;
  for (int i = 0; i < 5000; ++i) {
    const CropBox box = random_resized_crop(picture, kScale, kRatio, stream);
    ASSERT_GE(box.top, 0);
    ASSERT_GE(box.left, 0);
    ASSERT_LE(box.top + box.height, picture.height);
    ASSERT_LE(box.left + box.width, picture.width);
    const double ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    ASSERT_GT(ratio, kRatio[0] * 0.98);
    ASSERT_LT(ratio, kRatio[1] * 1.02);
    const double share = static_cast<double>(box.height * box.width) / (300 * 400);
    smallest = std::min(smallest, share);
    largest = std::max(largest, share);
    tops.insert(box.top);
  }
  EXPECT_GT(smallest, 0.078);
  EXPECT_LT(smallest, 0.09);
  EXPECT_GT(largest, 0.95);
  EXPECT_EQ(*tops.begin(), 0);
  EXPECT_GT(*tops.rbegin(), 180);
}

TEST(RandomResizedCrop, DrawsTheAspectOnALogarithmicScale) {
  RandomStream stream{2};
  double sum = 0;
  constexpr int kCount = 4000;
  for (int i = 0; i < kCount; ++i) {
    const CropBox box = random_resized_crop({1000, 1000}, {0.1, 0.1}, {1.0 / 16, 4.0}, stream);
    sum += std::log(static_cast<double>(box.width) / static_cast<double>(box.height));
  }
  // Boxes of more than 1000 x 1000 pixels are drawn anew: an aspect below 0.1.
  EXPECT_NEAR(sum / kCount, (std::log(0.1) + std::log(4.0)) / 2, 0.05);
}

TEST(RandomResizedCrop, FallsBackToTheCentre) {
  RandomStream stream{3};
  const Interval whole{1.0, 1.0};
  EXPECT_EQ(random_resized_crop({100, 1000}, whole, kRatio, stream), (CropBox{0, 433, 100, 133}));
  EXPECT_EQ(random_resized_crop({1000, 100}, whole, kRatio, stream), (CropBox{433, 0, 133, 100}));
  EXPECT_EQ(random_resized_crop({100, 110}, whole, {1.0, 1.2}, stream).height, 100);
}

TEST(RandomResizedCrop, TakesTheSmallestPictures) {
  RandomStream stream{4};
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(random_resized_crop({1, 1}, kScale, kRatio, stream), (CropBox{0, 0, 1, 1}));
    const CropBox box = random_resized_crop({1, 30000}, kScale, kRatio, stream);
    EXPECT_EQ(box.height, 1);
    EXPECT_EQ(box.width, 1);
  }
}

TEST(ResizeCrop, CutsExactlyTheBox) {
  const image::Picture part =
      resize_crop(numbered(6, 9), {2, 3, 2, 4}, {2, 4}, image::Interpolation::bicubic);
  EXPECT_EQ(part.width, 4);
  EXPECT_EQ(part.height, 2);
  EXPECT_EQ(std::vector(part.rgb.begin(), part.rgb.begin() + 6),
            (std::vector<std::uint8_t>{23, 102, 203, 24, 102, 204}));
  EXPECT_EQ(std::vector(part.rgb.end() - 3, part.rgb.end()),
            (std::vector<std::uint8_t>{36, 103, 206}));
}

// Halving with the antialiased triangle: weights 1/8, 3/8, 3/8, 1/8, and at the edge 3/7, 3/7, 1/7.
TEST(ResizeCrop, Antialiases) {
  image::Picture row{8, 2, {}};
  for (int i = 0; i < 2; ++i)
    for (const int value : {0, 0, 0, 0, 240, 240, 240, 240})
      row.rgb.insert(row.rgb.end(), 3, static_cast<std::uint8_t>(value));
  const image::Picture half =
      resize_crop(row, {0, 0, 2, 8}, {2, 4}, image::Interpolation::bilinear);
  EXPECT_EQ(half.rgb[0], 0);
  EXPECT_EQ(half.rgb[3], 30);
  EXPECT_EQ(half.rgb[6], 210);
  EXPECT_EQ(half.rgb[9], 240);
}

TEST(ResizeCrop, EnlargesASinglePixel) {
  const image::Picture plain =
      resize_crop(numbered(3, 3), {1, 2, 1, 1}, {2, 2}, image::Interpolation::bicubic);
  EXPECT_EQ(plain.rgb,
            (std::vector<std::uint8_t>{12, 101, 202, 12, 101, 202, 12, 101, 202, 12, 101, 202}));
}

TEST(Flip, MirrorsOddSizesToo) {
  image::Picture picture = numbered(3, 5);
  flip_horizontally(picture);
  for (int y = 0; y < 3; ++y)
    for (int x = 0; x < 5; ++x) EXPECT_EQ(picture.rgb[(y * 5 + x) * 3], 10 * y + 4 - x);
}

}  // namespace crop_test
}  // namespace hydrascope::model::training
