#include "model/training/data/augment.h"

#include "model/training/data/rand_augment.h"
#include "tests/error_matchers.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace hydrascope::model::training {
namespace {

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

}  // namespace
}  // namespace hydrascope::model::training
