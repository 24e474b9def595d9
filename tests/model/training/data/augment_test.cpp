#include "model/training/data/augment.h"

#include "model/training/data/crop.h"
#include "model/training/data/rand_augment.h"
#include "model/training/data/random_erasing.h"
#include "tests/error_matchers.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace hydrascope::model::training {
namespace augment_test {

/// Red runs to the right, green downwards.
image::Picture ramps(int height, int width) {
  image::Picture picture{width, height, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (const int value : {x * 255 / width, y * 255 / height, 77})
        picture.rgb.push_back(static_cast<std::uint8_t>(value));
  return picture;
}

AugmentOptions crop_only() {
  AugmentOptions options;
  options.size = {16, 16};
  options.hflip = 0;
  return options;
}

at::Tensor augmented(const AugmentOptions& options, std::uint64_t key = 1) {
  RandomStream stream{key};
  return augment(options, ramps(40, 50), stream);
}

TEST(Augment, NormalisesTheWholePicture) {
  AugmentOptions options = crop_only();
  options.size = {40, 50};
  options.scale = {1, 1};
  options.ratio = {1.25, 1.25};
  const at::Tensor image = augmented(options);
  ASSERT_EQ(image.sizes(), (at::IntArrayRef{3, 40, 50}));
  const auto expected = [&](int value, std::size_t c) {
    return (static_cast<float>(value) / 255.0F - static_cast<float>(options.mean[c])) /
           static_cast<float>(options.stddev[c]);
  };
  EXPECT_EQ(image[0][7][20].item<float>(), expected(102, 0));
  EXPECT_EQ(image[1][20][3].item<float>(), expected(127, 1));
  EXPECT_EQ(image[2][39][49].item<float>(), expected(77, 2));
}

TEST(Augment, FlipsByItsProbability) {
  AugmentOptions flipped = crop_only();
  flipped.hflip = 1;
  EXPECT_TRUE(at::equal(augmented(flipped), augmented(crop_only()).flip({2})));

  flipped.hflip = 0.25;
  int count = 0;
  for (std::uint64_t key = 0; key < 800; ++key) {
    const at::Tensor image = augmented(flipped, key);
    count += image[0][0][0].item<float>() > image[0][0][15].item<float>() ? 1 : 0;
  }
  EXPECT_NEAR(count, 200, 50);
}

TEST(Augment, DrawsItsFilter) {
  int bilinear = 0;
  for (std::uint64_t key = 0; key < 60; ++key) {
    RandomStream stream{key};
    bilinear += draw_interpolation(stream) == image::Interpolation::bilinear ? 1 : 0;
  }
  EXPECT_NEAR(bilinear, 30, 15);
}

TEST(Augment, AppliesRandAugment) {
  AugmentOptions options = crop_only();
  options.rand_augment = {.operations = 1, .probability = 1};
  int changed = 0;
  for (std::uint64_t key = 0; key < 60; ++key)
    changed += at::equal(augmented(options, key), augmented(crop_only(), key)) ? 0 : 1;
  EXPECT_GT(changed, 45);
}

TEST(Augment, ErasesTheNormalisedPicture) {
  AugmentOptions options = crop_only();
  options.erase_probability = 1;
  const at::Tensor changed = augmented(options).ne(augmented(crop_only()));
  EXPECT_GT(changed.sum().item<double>(), 3);
  EXPECT_LT(changed.to(at::kDouble).mean().item<double>(), 0.5);
}

TEST(Augment, TakesASinglePixel) {
  RandomStream stream{1};
  const at::Tensor image = augment(crop_only(), ramps(1, 1), stream);
  EXPECT_EQ(image.std().item<float>() > 0, true);
  EXPECT_EQ(image[2][0][0].item<float>(), image[2][15][15].item<float>());
}

TEST(Augment, ChecksItsOptions) {
  AugmentOptions options;
  check_augmentation(options);
  options.ratio = {0, 1};
  EXPECT_ERROR(check_augmentation(options), invalid_argument, "ratio");
  options = {};
  options.stddev[1] = 0;
  EXPECT_ERROR(check_augmentation(options), invalid_argument, "std");
  options = {};
  options.rand_augment.operations = -1;
  EXPECT_ERROR(check_augmentation(options), invalid_argument, "RandAugment");
  options = {};
  options.erase_probability = std::nan("");
  EXPECT_ERROR(check_augmentation(options), invalid_argument, "probabilities");
}

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

constexpr image::Size kSize{40, 60};
constexpr int kPixels = 40 * 60;
constexpr float kUntouched = 1000;

std::vector<float> erased(double probability, std::uint64_t key) {
  std::vector<float> image(3 * kPixels, kUntouched);
  RandomStream stream{key};
  erase_randomly(probability, kSize, image.data(), stream);
  return image;
}

int count_erased(const std::vector<float>& image) {
  return static_cast<int>(
      std::count_if(image.begin(), image.end(), [](float value) { return value != kUntouched; }));
}

TEST(RandomErasing, ErasesABoxOfAllChannels) {
  double least = 1;
  double most = 0;
  for (std::uint64_t key = 0; key < 300; ++key) {
    const std::vector<float> image = erased(1, key);
    int top = 1000;
    int bottom = -1;
    int left = 1000;
    int right = -1;
    for (int i = 0; i < kPixels; ++i) {
      const bool is_untouched = image[i] == kUntouched;
      ASSERT_EQ(is_untouched, image[i + kPixels] == kUntouched);
      ASSERT_EQ(is_untouched, image[i + 2 * kPixels] == kUntouched);
      if (is_untouched) continue;
      top = std::min(top, i / 60);
      bottom = std::max(bottom, i / 60);
      left = std::min(left, i % 60);
      right = std::max(right, i % 60);
    }
    const int height = bottom - top + 1;
    const int width = right - left + 1;
    ASSERT_EQ(count_erased(image), 3 * height * width);
    const double share = static_cast<double>(height * width) / kPixels;
    const double aspect = static_cast<double>(height) / width;
    least = std::min(least, share);
    most = std::max(most, share);
    ASSERT_GT(aspect, 0.25);
    ASSERT_LT(aspect, 4);
  }
  EXPECT_GT(least, 0.015);
  EXPECT_LT(least, 0.04);
  EXPECT_GT(most, 0.28);
  EXPECT_LT(most, 0.35);
}

TEST(RandomErasing, HappensWithItsProbability) {
  int happened = 0;
  for (std::uint64_t key = 0; key < 1000; ++key)
    happened += count_erased(erased(0.25, key)) > 0 ? 1 : 0;
  EXPECT_NEAR(happened, 250, 50);
  EXPECT_EQ(count_erased(erased(0, 1)), 0);
}

TEST(RandomErasing, NoiseIsNormalAndDiffersInEveryValue) {
  double sum = 0;
  double squares = 0;
  int count = 0;
  for (std::uint64_t key = 0; key < 20; ++key) {
    for (const float value : erased(1, key)) {
      if (value == kUntouched) continue;
      sum += value;
      squares += value * value;
      ++count;
    }
  }
  EXPECT_NEAR(sum / count, 0, 0.05);
  EXPECT_NEAR(squares / count, 1, 0.06);
}

}  // namespace augment_test
}  // namespace hydrascope::model::training
