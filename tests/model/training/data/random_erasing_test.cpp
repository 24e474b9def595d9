#include "model/training/data/random_erasing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace hydrascope::model::training {
namespace {

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

}  // namespace
}  // namespace hydrascope::model::training
