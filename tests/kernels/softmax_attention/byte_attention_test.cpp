// Products::bytes: against the softmax of the numbers that k, v and q stand for in 8 bits, and against
// the exact one.
#include "tests/kernels/softmax_attention/softmax_attention_suite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace hydrascope::kernels::test {
namespace softmax_attention_test {

/// The nearest numbers of 8 bits, each head of a row with a scale of its own.
template <class T>
std::vector<float> rounded_to_bytes(const StridedRows<T>& x, std::int64_t head_dim) {
  std::vector<float> rounded;
  for (std::int64_t row = 0; row < x.rows; ++row)
    for (std::int64_t head = 0; head < x.dim; head += head_dim) {
      double most = 0;
      for (std::int64_t i = 0; i < head_dim; ++i)
        most = std::max(most, std::abs(x.of(row, head + i)));
      for (std::int64_t i = 0; i < head_dim; ++i) {
        const double step = most / 127;
        rounded.push_back(
            static_cast<float>(step > 0 ? step * std::nearbyint(x.of(row, head + i) / step) : 0.0));
      }
    }
  return rounded;
}

/// Root mean square of the errors of the first `rows` rows, over the root mean square of v.
template <class T>
double relative_error(const Image<T>& image, std::int64_t rows,
                      const std::vector<double>& expected) {
  double errors = 0;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t c = 0; c < image.width; ++c) {
      const double error =
          image.y.of(row, c) - expected[static_cast<std::size_t>(row * image.width + c)];
      errors += error * error;
    }
  double values = 0;
  for (std::int64_t row = 0; row < image.shape.num_tokens; ++row)
    for (std::int64_t c = 0; c < image.width; ++c)
      values += image.v.of(row, c) * image.v.of(row, c);
  return std::sqrt(errors / static_cast<double>(rows)) /
         std::max(std::sqrt(values / static_cast<double>(image.shape.num_tokens)), 1e-30);
}

/// An image whose products are in 8 bits.
template <class T>
struct ByteImage : Image<T> {
  static constexpr bool kBytes = true;
  Fill how;

  ByteImage(const Shape& of, Fill how_)
      : Image<T>({of.num_tokens, of.num_heads, of.head_dim, softmax_attention::Products::bytes},
                 how_),
        how(how_) {}

  /// Rounding of weights to steps of 1 / 254 of the greatest one, each up or down, errs by 0.3 % of a
  /// value where few keys count and by less where many do. Rounding of q, k and v errs as much again.
  void compare(std::int64_t rows) {
    this->run(rows);
    EXPECT_TRUE(this->keys.intact());
    EXPECT_TRUE(this->values.intact());
    const std::int64_t d = this->shape.head_dim;
    if (how == Fill::large) return expect_means_of_values(rows);
    const std::vector<float> near_q = rounded_to_bytes(this->q, d);
    const std::vector<float> near_k = rounded_to_bytes(this->k, d);
    const std::vector<float> near_v = rounded_to_bytes(this->v, d);
    const auto name = "N " + std::to_string(this->shape.num_tokens) + ", d " + std::to_string(d);
    EXPECT_LT(relative_error(*this, rows,
                             softmax_attention::softmax_attention_reference(
                                 this->shape, near_q.data(), this->width, rows, near_k.data(),
                                 near_v.data(), this->width)),
              0.003 + rounding<T>() / 4)
        << name;
    EXPECT_LT(relative_error(*this, rows, this->reference(rows)), 0.008) << name;
  }

  /// Scores of thousands do not bear rounding: a step decides which key has all the weight.
  void expect_means_of_values(std::int64_t rows) {
    double most = 0;
    for (std::int64_t j = 0; j < this->shape.num_tokens; ++j)
      for (std::int64_t c = 0; c < this->width; ++c)
        most = std::max(most, std::abs(this->v.of(j, c)));
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t c = 0; c < this->width; ++c)
        ASSERT_LE(std::abs(this->y.of(row, c)), 1.01 * most) << row << ", " << c;
  }
};

using ByteImages = ::testing::Types<ByteImage<float>, ByteImage<BFloat16>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Bytes, SoftmaxAttention, ByteImages);

template <class T>
class ByteAttentionKernel : public ::testing::Test {};
TYPED_TEST_SUITE(ByteAttentionKernel, CpuTypes);

TYPED_TEST(ByteAttentionKernel, EveryKeyCounts) {
  for_each_instruction_set([] {
    // Each query has its key, all over two blocks, the last panel and the last quad.
    constexpr std::int64_t kKeys = 587;
    ByteImage<TypeParam> image({kKeys, 1, 32}, Fill::normal);
    std::vector<std::int64_t> keys{0,   1,   15,  16,  63,  64,  294, 319,
                                   320, 321, 383, 511, 512, 575, 576};
    for (std::int64_t key = 577; key < kKeys; ++key) keys.push_back(key);
    for (std::size_t row = 0; row < keys.size(); ++row)
      for (std::int64_t c = 0; c < 32; ++c)
        image.q.at(static_cast<std::int64_t>(row), c) =
            TypeParam(2.0F * static_cast<float>(image.k.of(keys[row], c)));
    image.compare(static_cast<std::int64_t>(keys.size()));
  });
}

TYPED_TEST(ByteAttentionKernel, ValuesOfZerosTakeNoStepsFromTheOthers) {
  for_each_instruction_set([] {
    ByteImage<TypeParam> image({700, 2, 32}, Fill::normal);
    for (std::int64_t j = 0; j < 700; ++j)
      for (std::int64_t c = 0; c < 64; ++c)
        image.v.at(j, c) =
            TypeParam(j % 100 == 7 ? 0.0F : 0.01F * static_cast<float>(image.v.of(j, c)));
    image.compare(30);
    // No value of the first block reaches the least magnitude.
    for (std::int64_t j = 0; j < 384; ++j)
      for (std::int64_t c = 0; c < 64; ++c) image.v.at(j, c) = TypeParam(1e-33F);
    image.compare(30);
  });
}

TYPED_TEST(ByteAttentionKernel, ScoresOfAnySizeKeepTheGreatestWeight) {
  for_each_instruction_set([] {
    for (const float size : {1.0F, 16.0F, 256.0F, 1e4F, 1e9F}) {
      ByteImage<TypeParam> image({100, 1, 64}, Fill::normal);
      for (std::int64_t j = 0; j < 100; ++j)
        for (std::int64_t c = 0; c < 64; ++c) {
          image.q.at(j, c) = TypeParam(size);
          image.k.at(j, c) = TypeParam(j == 3 ? 16.0F : 0.0F);
        }
      image.run(1);
      for (std::int64_t c = 0; c < 64; ++c)
        ASSERT_NEAR(image.y.of(0, c), image.v.of(3, c), 0.02) << "size " << size;
    }
  });
}

TYPED_TEST(ByteAttentionKernel, ManySmallWeightsBesideALargeOneDoNotVanish) {
  for_each_instruction_set([] {
    // Key 0 has half of all weight, 2000 others have a 4000th each: less than half a step.
    constexpr std::int64_t kKeys = 2001;
    ByteImage<TypeParam> image({kKeys, 1, 16}, Fill::ones);
    for (std::int64_t j = 0; j < kKeys; ++j)
      for (std::int64_t c = 0; c < 16; ++c) {
        image.k.at(j, c) = TypeParam(j == 0 && c == 0 ? 4.0F * std::log(2000.0F) : 0.0F);
        image.v.at(j, c) = TypeParam(j == 0 ? -1.0F : 1.0F);
      }
    for (std::int64_t c = 0; c < 16; ++c) image.q.at(0, c) = TypeParam(0.25F);
    image.run(1);
    for (std::int64_t c = 0; c < 16; ++c) EXPECT_NEAR(image.y.of(0, c), 0.0, 0.04);
  });
}

TYPED_TEST(ByteAttentionKernel, ValuesOfAnySizeStandBesideEachOther) {
  for_each_instruction_set([] {
    // The greatest weight belongs to a value of zeros, the others to values of 1e-3 and 1e3.
    ByteImage<TypeParam> image({300, 2, 32}, Fill::normal);
    for (std::int64_t j = 0; j < 300; ++j)
      for (std::int64_t c = 0; c < 64; ++c) {
        if (j == 7) image.k.at(j, c) = TypeParam(image.q.of(0, c) > 0 ? 4.0F : -4.0F);
        image.v.at(j, c) = TypeParam(
            j == 7 ? 0.0F : static_cast<float>(image.v.of(j, c)) * (j % 2 ? 1e3F : 1e-3F));
      }
    image.compare(30);
  });
}

TYPED_TEST(ByteAttentionKernel, NanAndInfinityReachTheirHead) {
  for_each_instruction_set([] {
    for (const float bad : {kNaN, std::numeric_limits<float>::infinity()})
      for (const std::int64_t num_tokens : {70, 577}) {
        const auto run_with = [&](auto spoil, auto is_bad) {
          ByteImage<TypeParam> image({num_tokens, 2, 32}, Fill::normal);
          spoil(image);
          image.run(9);
          for (std::int64_t row = 0; row < 9; ++row)
            for (std::int64_t c = 0; c < 64; ++c)
              ASSERT_EQ(image.y.is_nan(row, c), is_bad(row, c)) << row << ", " << c;
        };
        for (const std::int64_t key : {std::int64_t{5}, num_tokens - 1}) {
          run_with([&](auto& image) { image.k.at(key, 1) = TypeParam(bad); },
                   [](std::int64_t, std::int64_t c) { return c < 32; });
          run_with([&](auto& image) { image.v.at(key, 32 + 7) = TypeParam(bad); },
                   [](std::int64_t, std::int64_t c) { return c >= 32; });
        }
        run_with([&](auto& image) { image.q.at(3, 2) = TypeParam(bad); },
                 [](std::int64_t row, std::int64_t c) { return row == 3 && c < 32; });
      }
  });
}

}  // namespace softmax_attention_test
}  // namespace hydrascope::kernels::test
