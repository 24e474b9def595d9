#include "kernels/token_rows/token_rows_cuda.h"

#include "kernels/error.h"
#include "tests/kernels/token_rows.h"
#include "tests/kernels/token_rows/token_rows_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::kernels::test {
namespace token_rows_cuda_test {

using token_rows::cuda::MeanOfPatchesParams;
using token_rows::cuda::PrefixTokensParams;

template <class T>
class TokenRowsCuda : public DeviceTest {};
TYPED_TEST_SUITE(TokenRowsCuda, GpuTypes);

TYPED_TEST(TokenRowsCuda, EveryImageBeginsWithThePrefix) {
  constexpr std::int64_t kImages = 3;
  for (const std::int64_t num_prefix : {1, 2, 5}) {
    for (const std::int64_t dim : {8, 64, 192, 304}) {
      std::vector<float> prefix(static_cast<std::size_t>(num_prefix * dim));
      fill(prefix, Fill::normal, 1);
      const DeviceArray<float> device_prefix(prefix);
      for_each_schedule([&] {
        // Two more tokens follow, which the next image's rows must not reach.
        TokenRows<TypeParam> x(kImages, num_prefix, dim, {8, 2 * (dim + 8)});
        PrefixTokensParams<TypeParam> p{x.data(),   x.stride(), x.image_stride(), kImages,
                                        num_prefix, dim,        prefix.data()};
        const std::vector<double> expected = token_rows::prefix_tokens_reference(p);
        p.prefix = device_prefix.data();
        token_rows::cuda::prefix_tokens(p, nullptr);
        ASSERT_NO_FATAL_FAILURE(x.download());
        const std::vector<TypeParam> found = x.values();
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t i = 0; i < found.size(); ++i)
          ASSERT_EQ(static_cast<float>(found[i]),
                    static_cast<float>(TypeParam(static_cast<float>(expected[i]))));
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
  EXPECT_THROW(token_rows::cuda::mean_of_patches(  // rows of no whole packs
                   MeanOfPatchesParams<TypeParam>{nullptr, 9, 9, 1, 2, 1, 9, nullptr, 9}, nullptr),
               Error);
}

struct Case {
  std::int64_t images;
  std::int64_t tokens;
  std::int64_t num_prefix;
  std::int64_t dim;
  Fill how = Fill::normal;
};

/// The rows of a case, NaN in the prefix, which the mean must not see.
template <class T>
TokenRows<T> tokens_of(const Case& c) {
  TokenRows<T> x(c.images, c.tokens, c.dim, Layout::packed, c.how, 2);
  for (std::int64_t image = 0; image < c.images; ++image)
    for (std::int64_t token = 0; token < c.num_prefix; ++token)
      for (std::int64_t i = 0; i < c.dim; ++i) x.at(image, token, i) = TokenRows<T>::nan();
  x.upload();
  return x;
}

/// `y` null: where the twin takes no memory.
template <class T>
MeanOfPatchesParams<T> params_of(const Case& c, const TokenRows<T>& x, const T* data, float* y) {
  return {data, x.stride(), x.image_stride(), c.images, c.tokens, c.num_prefix, c.dim, y, c.dim};
}
template <class T>
std::vector<float> mean_of(const Case& c, const TokenRows<T>& x, std::int64_t first_image = 0) {
  DeviceArray<float> y(static_cast<std::size_t>(c.images * c.dim));
  token_rows::cuda::mean_of_patches(
      params_of(c, x, x.data() + first_image * x.image_stride(), y.data()), nullptr);
  EXPECT_TRUE(y.intact());
  return y.download();
}

template <class T>
void compare(const Case& c) {
  SCOPED_TRACE(std::to_string(c.images) + "x" + std::to_string(c.tokens) + "x" +
               std::to_string(c.dim));
  const TokenRows<T> x = tokens_of<T>(c);
  const std::vector<double> expected =
      token_rows::mean_of_patches_reference(params_of<T>(c, x, x.host_of(0), nullptr));
  for_each_schedule([&] {
    const std::vector<float> found = mean_of(c, x);
    // Sums of some fifty values of order one (a hundred for Fill::large), each rounded.
    expect_close(found.data(), expected, rounding<float>(), c.how == Fill::large ? 1e-4 : 1e-6,
                 static_cast<std::size_t>(c.dim), "mean");
  });
}

TYPED_TEST(TokenRowsCuda, TheMeanIsOfThePatches) {
  for (const std::int64_t tokens : {2, 31, 32, 33, 34, 65, 197, 577})
    compare<TypeParam>({2, tokens, 1, 72});
  for (const std::int64_t dim : {8, 64, 72, 192}) compare<TypeParam>({1, 35, 2, dim});
  for (const Fill how : kAllFills) compare<TypeParam>({1, 50, 0, 16, how});
}

TYPED_TEST(TokenRowsCuda, NanStaysInItsColumnAndImage) {
  const Case c{2, 40, 1, 24};
  TokenRows<TypeParam> x = tokens_of<TypeParam>(c);
  x.at(1, 33, 9) = TokenRows<TypeParam>::nan();
  x.upload();
  const std::vector<float> y = mean_of(c, x);
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(std::isnan(y[i]), i == 24 + 9) << i;
}

TYPED_TEST(TokenRowsCuda, ABatchEqualsItsImagesInEverySchedule) {
  const Case two{2, 70, 1, 72};
  Case one = two;
  one.images = 1;
  const TokenRows<TypeParam> x = tokens_of<TypeParam>(two);
  const std::vector<float> first = mean_of(two, x);
  for_each_schedule([&] {
    std::vector<float> alone = mean_of(one, x);
    for (const float value : mean_of(one, x, 1)) alone.push_back(value);
    const std::vector<float> together = mean_of(two, x);
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
