#include "kernels/patchify/patchify_cuda.h"

#include "kernels/error.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/fills.h"
#include "tests/kernels/patchify/patchify_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace hydrascope::kernels::test {
namespace patchify_cuda_test {

using patchify::cuda::PixelParams;

template <class T>
class PatchifyCuda : public DeviceTest {};
TYPED_TEST_SUITE(PatchifyCuda, GpuTypes);

struct Case {
  std::int64_t images;
  std::int64_t grid_rows;
  std::int64_t grid_columns;
  std::int64_t patch_size;
  std::int64_t valid_height;  ///< of the pixels: fewer than the grid wants, or more
  std::int64_t valid_width;
  std::int64_t alignment = 16;  ///< of the pixels' rows, in bytes
};

std::string name(const Case& c) {
  return std::to_string(c.images) + " x " + std::to_string(c.grid_rows) + " x " +
         std::to_string(c.grid_columns) + " patches of " + std::to_string(c.patch_size) + ", " +
         std::to_string(c.valid_height) + " x " + std::to_string(c.valid_width) +
         " pixels aligned to " + std::to_string(c.alignment);
}

std::int64_t values_of(const Case& c) {
  return c.images * c.grid_rows * c.grid_columns * 3 * c.patch_size * c.patch_size;
}

/// Every number a pixel may be, then noise.
std::vector<std::uint8_t> noise(std::int64_t count) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(count));
  std::mt19937 random(1);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>(i < 256 ? i : random());
  return pixels;
}

/// The values that launch(y) writes.
template <class T, class Launch>
std::vector<T> written(std::int64_t values, Launch launch) {
  DeviceArray<T> y(static_cast<std::size_t>(values));
  launch(y.data());
  EXPECT_TRUE(y.intact());
  return y.download();
}

template <class T>
PixelParams<T> pixel_params(const Case& c) {
  PixelParams<T> p{};
  const std::int64_t row = 3 * c.valid_width;
  p.row_bytes = (row + c.alignment - 1) / c.alignment * c.alignment;
  if (c.alignment == 1) p.row_bytes += 1 - row % 2;  // odd
  p.image_bytes = c.valid_height * p.row_bytes;
  p.images = c.images;
  p.grid_rows = c.grid_rows;
  p.grid_columns = c.grid_columns;
  p.patch_size = c.patch_size;
  p.valid_height = c.valid_height;
  p.valid_width = c.valid_width;
  constexpr float kMean[] = {0.485F, 0.456F, 0.406F};
  constexpr float kDeviation[] = {0.229F, 0.224F, 0.225F};
  for (int channel = 0; channel < 3; ++channel) {
    p.scale[channel] = 1 / (255 * kDeviation[channel]);
    p.shift[channel] = -kMean[channel] / kDeviation[channel];
  }
  return p;
}

/// Bytes up to the last pixel: not one behind, the address sanitizer watches.
std::int64_t bytes_of(const Case& c, std::int64_t row_bytes) {
  return (c.images * c.valid_height - 1) * row_bytes + 3 * c.valid_width;
}

template <class T>
void compare_pixels(const Case& c) {
  SCOPED_TRACE(name(c));
  PixelParams<T> p = pixel_params<T>(c);
  const std::vector<std::uint8_t> pixels = noise(bytes_of(c, p.row_bytes));
  p.pixels = pixels.data();
  const std::vector<double> expected = patchify::normalised_pixels_reference(p);
  const DeviceArray<std::uint8_t> device_pixels(pixels);
  for_each_schedule([&] {
    p.pixels = device_pixels.data();
    const std::vector<T> found = written<T>(values_of(c), [&](T* y) {
      p.y = y;
      patchify::cuda::from_pixels(p, nullptr);
    });
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto value = static_cast<double>(static_cast<float>(found[i]));
      if (expected[i] == 0) {
        ASSERT_TRUE(value == 0 && !std::signbit(value)) << "padding at " << i;
        continue;
      }
      // A product below 4.5 and a sum, rounded to float32; then the rounding to T of the result.
      ASSERT_LE(std::abs(value - expected[i]), 6e-7 + rounding<T>() * std::abs(expected[i]))
          << "at " << i << ": found " << value << ", expected " << expected[i];
    }
  });
}

TYPED_TEST(PatchifyCuda, PixelsBecomeNormalisedPatches) {
  for (const std::int64_t patch : {8, 14, 16, 32}) {
    compare_pixels<TypeParam>({1, 1, 1, patch, patch, patch});
    compare_pixels<TypeParam>({2, 2, 3, patch, 2 * patch, 3 * patch});
  }
  // More than a run of patches, with one left over.
  compare_pixels<TypeParam>({1, 1, 65, 8, 8, 520});
  compare_pixels<TypeParam>({1, 2, 17, 14, 28, 238});
  compare_pixels<TypeParam>({2, 1, 33, 16, 16, 528});
  compare_pixels<TypeParam>({1, 1, 5, 32, 32, 160});
}

TYPED_TEST(PatchifyCuda, OutsideOfThePixelsThereIsZero) {
  for (const std::int64_t patch : {8, 14, 16, 32}) {
    compare_pixels<TypeParam>({2, 2, 3, patch, 2 * patch - 1, 3 * patch - 1});
    compare_pixels<TypeParam>({1, 2, 3, patch, patch + 1, 2 * patch + 3});
    compare_pixels<TypeParam>({1, 3, 2, patch, patch, patch});  // whole patches without a pixel
    compare_pixels<TypeParam>({1, 1, 1, patch, 1, 1});
    compare_pixels<TypeParam>({1, 1, 2, patch, patch + 3, 2 * patch + 5});  // and cropped
  }
  compare_pixels<TypeParam>({1, 1, 33, 16, 9, 250});  // whole runs without a pixel
}

TYPED_TEST(PatchifyCuda, EveryAlignmentOfPixelsIsServed) {
  for (const std::int64_t patch : {8, 14, 16, 32})
    for (const std::int64_t alignment : {1, 2, 4, 8})
      compare_pixels<TypeParam>({2, 1, 2, patch, patch, 2 * patch - alignment % 4, alignment});
}

TYPED_TEST(PatchifyCuda, NothingIsLaunchedForNoImagesAndWhatNoKernelServesIsRefused) {
  patchify::cuda::from_pixels(pixel_params<TypeParam>({0, 2, 2, 16, 32, 32}), nullptr);
  DeviceArray<TypeParam> y(3 * 16 * 16 + 1);
  PixelParams<TypeParam> pixels = pixel_params<TypeParam>({1, 1, 1, 16, 16, 16});
  pixels.y = y.data() + 1;
  EXPECT_THROW(patchify::cuda::from_pixels(pixels, nullptr), Error);
  pixels = pixel_params<TypeParam>({1, 1, 1, 7, 7, 7});
  EXPECT_FALSE(patchify::cuda::serves(7));
  EXPECT_THROW(patchify::cuda::from_pixels(pixels, nullptr), Error);
  pixels = pixel_params<TypeParam>({1, 1, 1, 16, 16, 16});
  pixels.y = y.data();
  pixels.grid_rows = std::int64_t{1} << 31;
  EXPECT_THROW(patchify::cuda::from_pixels(pixels, nullptr), Error);
}

}  // namespace patchify_cuda_test
}  // namespace hydrascope::kernels::test
