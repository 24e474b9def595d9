#include "kernels/token_rows/token_rows_cuda.h"

#include "kernels/error.h"
#include "kernels/token_rows/token_rows_geometry.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/fills.h"
#include "tests/kernels/token_rows/token_rows_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace hydrascope::kernels::test {
namespace token_rows_cuda_test {

using token_rows::cuda::MeanOfPatchesParams;
using token_rows::cuda::PrefixTokensParams;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
class TokenRowsCuda : public DeviceTest {};
using Stored = testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(TokenRowsCuda, Stored);

TYPED_TEST(TokenRowsCuda, EveryImageBeginsWithThePrefix) {
  constexpr std::int64_t kImages = 3;
  for (const std::int64_t num_prefix : {1, 2, 5}) {
    for (const std::int64_t dim : {1, 63, 192, 300}) {
      const std::int64_t stride = dim + 3;
      const std::int64_t image_stride = (num_prefix + 2) * stride + 1;
      std::vector<float> prefix(static_cast<std::size_t>(num_prefix * dim));
      fill(prefix, Fill::normal, 1);
      const DeviceArray<float> device_prefix(prefix);
      PrefixTokensParams<TypeParam> p{nullptr,    stride, image_stride, kImages,
                                      num_prefix, dim,    prefix.data()};
      const std::vector<double> expected = token_rows::prefix_tokens_reference(p);
      p.prefix = device_prefix.data();
      for_each_schedule([&] {
        DeviceArray<TypeParam> x(static_cast<std::size_t>(kImages * image_stride));
        p.x = x.data();
        token_rows::cuda::prefix_tokens(p, nullptr);
        const std::vector<TypeParam> found = x.download();
        EXPECT_TRUE(x.intact());
        std::size_t next = 0;
        for (std::int64_t i = 0; i < kImages * image_stride; ++i) {
          const auto value = static_cast<float>(found[static_cast<std::size_t>(i)]);
          const std::int64_t within = i % image_stride;
          if (within / stride < num_prefix && within % stride < dim)
            ASSERT_EQ(value, static_cast<float>(TypeParam(static_cast<float>(expected[next++]))));
          else
            ASSERT_TRUE(std::isnan(value)) << "written beside the prefix, at " << i;
        }
        ASSERT_EQ(next, expected.size());
      });
    }
  }
}

TYPED_TEST(TokenRowsCuda, NothingIsLaunchedForNothing) {
  token_rows::cuda::prefix_tokens(PrefixTokensParams<TypeParam>{nullptr, 8, 8, 0, 1, 8, nullptr},
                                  nullptr);
  token_rows::cuda::prefix_tokens(PrefixTokensParams<TypeParam>{nullptr, 8, 8, 2, 0, 8, nullptr},
                                  nullptr);
  token_rows::cuda::mean_of_patches(
      MeanOfPatchesParams<TypeParam>{nullptr, 8, 8, 0, 2, 1, 8, nullptr, 8}, nullptr);
  EXPECT_THROW(token_rows::cuda::mean_of_patches(
                   MeanOfPatchesParams<TypeParam>{nullptr, 8, 8, 1, 1, 1, 8, nullptr, 8}, nullptr),
               Error);
}

struct Case {
  std::int64_t images;
  std::int64_t tokens;
  std::int64_t num_prefix;
  std::int64_t dim;
  std::int64_t gap = 16;  ///< NaN between rows, in elements
  std::int64_t offset = 0;
  Fill how = Fill::normal;
};

/// The rows of a case: NaN between them and in the prefix, which the mean must not see.
template <class T>
struct Tokens {
  explicit Tokens(const Case& c) : stride(c.dim + c.gap), image_stride(c.tokens * stride + c.gap) {
    all.assign(static_cast<std::size_t>(c.offset + c.images * image_stride), T(kNan));
    std::vector<T> values(static_cast<std::size_t>(c.images * c.tokens * c.dim));
    fill(values, c.how, 2);
    std::size_t next = 0;
    for (std::int64_t image = 0; image < c.images; ++image)
      for (std::int64_t token = c.num_prefix; token < c.tokens; ++token)
        for (std::int64_t i = 0; i < c.dim; ++i)
          all[static_cast<std::size_t>(c.offset + image * image_stride + token * stride + i)] =
              values[next++];
  }
  std::int64_t stride;
  std::int64_t image_stride;
  std::vector<T> all;
};

template <class T>
std::vector<float> mean_of(const Case& c, const Tokens<T>& tokens, const DeviceArray<T>& x) {
  DeviceArray<float> y(static_cast<std::size_t>(c.images * c.dim));
  token_rows::cuda::mean_of_patches(
      MeanOfPatchesParams<T>{x.data() + c.offset, tokens.stride, tokens.image_stride, c.images,
                             c.tokens, c.num_prefix, c.dim, y.data(), c.dim},
      nullptr);
  EXPECT_TRUE(y.intact());
  return y.download();
}

template <class T>
void compare(const Case& c) {
  SCOPED_TRACE(std::to_string(c.images) + "x" + std::to_string(c.tokens) + "x" +
               std::to_string(c.dim) + " gap " + std::to_string(c.gap) + " offset " +
               std::to_string(c.offset));
  const Tokens<T> tokens(c);
  const std::vector<double> expected = token_rows::mean_of_patches_reference(
      MeanOfPatchesParams<T>{tokens.all.data() + c.offset, tokens.stride, tokens.image_stride,
                             c.images, c.tokens, c.num_prefix, c.dim, nullptr, 0});
  const DeviceArray<T> x(tokens.all);
  for_each_schedule([&] {
    const std::vector<float> found = mean_of(c, tokens, x);
    // Sums of some fifty values of order one (a hundred for Fill::large), each rounded.
    expect_close(found.data(), expected, rounding<float>(), c.how == Fill::large ? 1e-4 : 1e-6,
                 static_cast<std::size_t>(c.dim), "mean");
  });
}

TYPED_TEST(TokenRowsCuda, TheMeanIsOfThePatches) {
  for (const std::int64_t tokens : {2, 31, 32, 33, 34, 65, 197, 577})
    compare<TypeParam>({2, tokens, 1, 72});
  for (const std::int64_t dim : {1, 7, 8, 9, 31, 64, 65, 100, 192})
    for (const std::int64_t gap : {0, 1, 16}) compare<TypeParam>({1, 35, 2, dim, gap});
  for (const Fill how : kAllFills) compare<TypeParam>({1, 50, 0, 16, 0, 0, how});
  compare<TypeParam>({2, 20, 5, 64, 0, 1});
}

TYPED_TEST(TokenRowsCuda, NanStaysInItsColumnAndImage) {
  const Case c{2, 40, 1, 24};
  Tokens<TypeParam> tokens(c);
  tokens.all[static_cast<std::size_t>(tokens.image_stride + 33 * tokens.stride + 9)] =
      TypeParam(kNan);
  const DeviceArray<TypeParam> x(tokens.all);
  const std::vector<float> y = mean_of(c, tokens, x);
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isnan(y[i]), i == 24 + 9) << i;
}

TYPED_TEST(TokenRowsCuda, ABatchEqualsItsImagesInEverySchedule) {
  const Case two{2, 70, 1, 72};
  Case one = two;
  one.images = 1;
  const Tokens<TypeParam> tokens(two);
  const DeviceArray<TypeParam> x(tokens.all);
  const std::vector<float> first = mean_of(two, tokens, x);
  for_each_schedule([&] {
    std::vector<float> alone = mean_of(one, tokens, x);
    one.offset = tokens.image_stride;
    for (const float value : mean_of(one, tokens, x)) alone.push_back(value);
    one.offset = 0;
    const std::vector<float> together = mean_of(two, tokens, x);
    for (std::size_t i = 0; i < first.size(); ++i) {
      ASSERT_EQ(first[i], together[i]);
      ASSERT_EQ(first[i], alone[i]);
    }
  });
}

TEST(TokenRowsGeometry, BlocksAreTilesOfColumns) {
  EXPECT_EQ(token_rows::cuda::mean_geometry(2, 768, 8).grid.x, 24);
  EXPECT_EQ(token_rows::cuda::mean_geometry(1, 65, 8).grid.x, 2);
  EXPECT_EQ(token_rows::cuda::prefix_geometry(8, 1).grid.x, 8);
}

}  // namespace token_rows_cuda_test
}  // namespace hydrascope::kernels::test
