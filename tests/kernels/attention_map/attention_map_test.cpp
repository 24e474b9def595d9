#include "kernels/attention_map/attention_map.h"

#include "tests/kernels/attention_map/attention_map_reference.h"
#include "tests/kernels/kernel_case.h"
#include "tests/kernels/linear_attention/linear_attention_reference.h"
#include "tests/kernels/strided_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hydrascope::kernels::test {
namespace attention_map_test {

namespace am = attention_map;
namespace la = linear_attention;
using am::HydraMeasure;
using la::Feature;
using la::kAllFeatures;
using la::name_of;

constexpr std::int64_t kTokens[] = {0, 1, 2, 31, 32, 33, 197, 198};
const float kNaN = std::numeric_limits<float>::quiet_NaN();

template <class T>
class AttentionMapKernel : public testing::Test {};
TYPED_TEST_SUITE(AttentionMapKernel, CpuTypes);

/// Inputs are what they are, results float32: all that errs is a sum of `terms` terms, by half a
/// unit of its magnitude a term, and a few products around it. Below 1e-37 weights count as zero.
void expect_equal(const StridedRows<float>& found, const twin::Sums& expected, std::int64_t terms) {
  const double relative = static_cast<double>(terms + 8) * 6e-8;
  ASSERT_EQ(expected.values.size(), static_cast<std::size_t>(found.rows * found.dim));
  std::size_t i = 0;
  for (std::int64_t r = 0; r < found.rows; ++r) {
    for (std::int64_t c = 0; c < found.dim; ++c, ++i) {
      if (found.of(r, c) == expected.values[i]) continue;  // infinite ones too
      ASSERT_LE(std::abs(found.of(r, c) - expected.values[i]),
                relative * expected.magnitudes[i] + 1e-37)
          << "row " << r << ", column " << c << ": found " << found.of(r, c) << ", expected "
          << expected.values[i];
    }
  }
  EXPECT_TRUE(found.intact());
}

/// k, v and w of one picture.
template <class T>
struct HydraCase {
  StridedRows<T> k;
  StridedRows<T> v;
  StridedRows<float> weight;
  StridedRows<float> heat;
  hydra::Kernel kernel;
  HydraMeasure measure = HydraMeasure::sum;

  HydraCase(std::int64_t rows, std::int64_t dim, Fill how = Fill::normal)
      : k(rows, dim, 5, how, 1),
        v(rows, dim, 5, how, 2),
        weight(1, dim, 0, how, 3),
        heat(1, rows, 0) {}
  am::HydraMapParams<T> params() {
    return {weight.data(), k.data(), v.data(), k.stride, k.rows,  k.dim,
            kernel,        2,        0.5F,     1.25F,    measure, heat.data()};
  }
  void compare() {
    am::hydra_map(params());
    expect_equal(heat, am::hydra_map_reference(params()), k.dim);
  }
};

TYPED_TEST(AttentionMapKernel, HydraMapEqualsTheTwin) {
  for_each_instruction_set([] {
    for (const HydraMeasure measure : {HydraMeasure::sum, HydraMeasure::squares}) {
      SCOPED_TRACE("measure " + std::to_string(static_cast<int>(measure)));
      const auto compare = [measure](std::int64_t rows, std::int64_t dim) {
        HydraCase<TypeParam> map(rows, dim);
        map.measure = measure;
        map.compare();
      };
      for (const std::int64_t rows : kTokens)
        for (const std::int64_t dim : {1, 64, 97}) compare(rows, dim);
      compare(577, 47);
      compare(5, 768);
    }
  });
}

TYPED_TEST(AttentionMapKernel, HydraMapEqualsTheTwinForEveryNormEpsAndInput) {
  for (const Fill how : kAllFills)
    for (const hydra::Norm norm : {hydra::Norm::l2, hydra::Norm::l1, hydra::Norm::none})
      for (const hydra::Eps rule : {hydra::Eps::max, hydra::Eps::rsqrt, hydra::Eps::add})
        for (const float eps : {1e-6F, 5.0F})
          for (const HydraMeasure measure : {HydraMeasure::sum, HydraMeasure::squares}) {
            HydraCase<TypeParam> map(7, 77, how);
            map.kernel = {hydra::Norm::none, norm, rule, eps};
            map.measure = measure;
            map.compare();
          }
}

template <class T>
struct SoftmaxCase {
  std::int64_t heads;
  StridedRows<T> q;
  StridedRows<T> k;
  StridedRows<float> scores;

  SoftmaxCase(std::int64_t rows, std::int64_t heads_, std::int64_t head_dim,
              Fill how = Fill::normal)
      : heads(heads_),
        q(1, heads_ * head_dim, 0, how, 1),
        k(rows, heads_ * head_dim, 7, how, 2),
        scores(heads_, rows, 3) {}
  am::SoftmaxScoresParams<T> params() {
    return {q.data(), k.data(),      k.stride,      k.rows,
            heads,    k.dim / heads, scores.data(), scores.stride};
  }
  void compare() {
    am::softmax_scores(params());
    expect_equal(scores, am::softmax_scores_reference(params()), k.dim / heads);
  }
};

TYPED_TEST(AttentionMapKernel, SoftmaxScoresEqualTheTwin) {
  for_each_instruction_set([] {
    for (const std::int64_t rows : kTokens) SoftmaxCase<TypeParam>(rows, 3, 64).compare();
    for (const std::int64_t head_dim : {1, 7, 16, 33, 48, 80, 128})
      SoftmaxCase<TypeParam>(35, 2, head_dim).compare();
    SoftmaxCase<TypeParam>(577, 1, 32).compare();
    for (const Fill how : kAllFills) SoftmaxCase<TypeParam>(13, 2, 40, how).compare();
  });
}

template <class T>
struct LinearCase {
  la::Shape shape;
  StridedRows<T> q;
  StridedRows<T> k;
  StridedRows<float> scores;
  float prefix_weight = 0.75F;
  float patch_weight = 0.2F;

  LinearCase(Feature feature, std::int64_t rows, std::int64_t heads, std::int64_t width,
             Fill how = Fill::normal)
      : shape{heads, width, 1, feature, la::Normaliser::add_eps, 1e-6F, 1e-6F},
        q(1, heads * width, 0, how, 1),
        k(rows, heads * width, 5, how, 2),
        scores(heads, rows, 3) {}
  am::LinearScoresParams<T> params() {
    return {shape, q.data(),      k.data(),     k.stride,      k.rows,
            2,     prefix_weight, patch_weight, scores.data(), scores.stride};
  }
  void compare() {
    am::linear_scores(params());
    expect_equal(scores, am::linear_scores_reference(params()), shape.features());
  }
};

TYPED_TEST(AttentionMapKernel, LinearScoresEqualTheTwinForEveryMap) {
  for_each_instruction_set([] {
    for (const Feature feature : kAllFeatures) {
      SCOPED_TRACE(name_of(feature));
      for (const std::int64_t rows : {0, 1, 2, 31, 33, 131})
        LinearCase<TypeParam>(feature, rows, 2, 32).compare();
      for (const std::int64_t width : {1, 5, 24, 37, 80})
        LinearCase<TypeParam>(feature, 7, 2, width).compare();
      for (const Fill how : kAllFills) LinearCase<TypeParam>(feature, 6, 2, 40, how).compare();
    }
    LinearCase<TypeParam>(Feature::exp_pair, 577, 1, 16).compare();
  });
}

TYPED_TEST(AttentionMapKernel, LinearScoresOfTokensThatDoNotCountAreZeroOrItsLogarithm) {
  for_each_instruction_set([] {
    for (const Feature feature : kAllFeatures) {
      SCOPED_TRACE(name_of(feature));
      LinearCase<TypeParam> map(feature, 5, 1, 20);
      map.prefix_weight = 0;
      map.compare();
      EXPECT_EQ(map.scores.at(0, 1),
                la::is_exponential(feature) ? -std::numeric_limits<float>::infinity() : 0.0F);
    }
    // So are those of keys without a feature.
    LinearCase<TypeParam> map(Feature::exp, 5, 1, 20);
    for (std::int64_t i = 0; i < 20; ++i)
      map.k.at(3, i) = TypeParam(-std::numeric_limits<float>::infinity());
    am::linear_scores(map.params());
    EXPECT_EQ(map.scores.at(0, 3), -std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isfinite(map.scores.at(0, 2)));
  });
}

TEST(AttentionMapWeights, NormaliseEqualsTheTwin) {
  for_each_instruction_set([] {
    for (const am::Weights rule : {am::Weights::softmax, am::Weights::over_sum, am::Weights::raw}) {
      for (const Fill how : kAllFills) {
        SCOPED_TRACE("rule " + std::to_string(static_cast<int>(rule)) + ", fill " +
                     std::to_string(static_cast<int>(how)));
        for (const std::int64_t tokens : {0, 1, 2, 31, 32, 33, 197, 577, 2065}) {
          StridedRows<float> scores(3, tokens, 5, how, 4);
          const auto expected =
              am::normalise_reference(scores.data(), scores.stride, 3, tokens, rule, 1e-6F);
          am::normalise(scores.data(), scores.stride, 3, tokens, rule, 1e-6F);
          expect_equal(scores, expected, tokens);
        }
      }
    }
  });
}

TEST(AttentionMapWeights, ManyTokensAddUpToOne) {
  for_each_instruction_set([] {
    for (const am::Weights rule : {am::Weights::softmax, am::Weights::over_sum}) {
      StridedRows<float> scores(1, 32401, 0, Fill::ramp, 0);
      for (float& s : scores.values) s += rule == am::Weights::softmax ? 30.0F : 2.0F;
      am::normalise(scores.data(), scores.stride, 1, 32401, rule, 0);
      double sum = 0;
      for (const float weight : scores.values) sum += static_cast<double>(weight);
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  });
}

TEST(AttentionMapWeights, TokensAtMinusInfinityWeighNothingAndNanPoisonsItsHead) {
  for_each_instruction_set([] {
    for (const std::int64_t at : {0, 20, 36}) {
      StridedRows<float> scores(2, 37, 3, Fill::normal, 5);
      scores.at(0, at) = -std::numeric_limits<float>::infinity();
      scores.at(1, at) = kNaN;
      am::normalise(scores.data(), scores.stride, 2, 37, am::Weights::softmax, 0);
      EXPECT_EQ(scores.at(0, at), 0.0F);
      double sum = 0;
      for (std::int64_t t = 0; t < 37; ++t) {
        sum += scores.of(0, t);
        EXPECT_TRUE(std::isnan(scores.at(1, t)));
      }
      EXPECT_NEAR(sum, 1, 1e-6);
      am::normalise(scores.data(), scores.stride, 2, 37, am::Weights::over_sum, 0);
      EXPECT_FALSE(std::isnan(scores.at(0, 5)));
      EXPECT_TRUE(std::isnan(scores.at(1, 5)));
    }
  });
}

TEST(AttentionMapWeights, MeanOverHeadsEqualsTheTwin) {
  for_each_instruction_set([] {
    for (const std::int64_t heads : {1, 3, 12})
      for (const std::int64_t rows : kTokens) {
        const StridedRows<float> weights(heads, rows, 3, Fill::normal, 6);
        StridedRows<float> heat(1, rows, 0);
        am::mean_over_heads(weights.data(), weights.stride, heads, rows, heat.data());
        expect_equal(heat,
                     am::mean_over_heads_reference(weights.data(), weights.stride, heads, rows),
                     heads);
      }
  });
}

TYPED_TEST(AttentionMapKernel, ATokenDependsOnNoOtherToken) {
  for_each_instruction_set([] {
    for (const std::int64_t first : {3, 9}) {  // 11 rows, then 5
      HydraCase<TypeParam> map(14, 77);
      SoftmaxCase<TypeParam> softmax(14, 2, 37);
      am::hydra_map(map.params());
      am::softmax_scores(softmax.params());
      StridedRows<float> map_tile(1, 14, 0);
      StridedRows<float> softmax_tile(2, 14, 3);
      auto p = map.params();
      p.k += first * p.stride;
      p.v += first * p.stride;
      p.rows -= first;
      p.num_prefix -= first;
      p.heat = map_tile.data() + first;
      am::hydra_map(p);
      auto s = softmax.params();
      s.k += first * s.k_stride;
      s.rows -= first;
      s.scores = softmax_tile.data() + first;
      am::softmax_scores(s);
      for (std::int64_t t = first; t < 14; ++t) {
        EXPECT_EQ(map_tile.at(0, t), map.heat.at(0, t));
        EXPECT_EQ(softmax_tile.at(1, t), softmax.scores.at(1, t));
      }
      for (const Feature feature : kAllFeatures) {
        LinearCase<TypeParam> linear(feature, 14, 2, 37);
        StridedRows<float> tile(2, 14, 3);
        auto l = linear.params();
        am::linear_scores(l);
        l.k += first * l.k_stride;
        l.rows -= first;
        l.num_prefix -= first;
        l.scores = tile.data() + first;
        am::linear_scores(l);
        for (std::int64_t t = first; t < 14; ++t)
          EXPECT_EQ(tile.at(1, t), linear.scores.at(1, t)) << static_cast<int>(feature);
      }
    }
  });
}

TYPED_TEST(AttentionMapKernel, NanReachesItsTokenAndItsHead) {
  const TypeParam nan(kNaN);
  for_each_instruction_set([nan] {
    for (const std::int64_t column : {0, 21, 36}) {
      HydraCase<TypeParam> map(7, 37);
      map.k.at(2, column) = nan;
      map.v.at(5, column) = nan;
      am::hydra_map(map.params());
      SoftmaxCase<TypeParam> softmax(7, 2, 37);
      softmax.k.at(5, 37 + column) = nan;
      am::softmax_scores(softmax.params());
      for (std::int64_t t = 0; t < 7; ++t) {
        EXPECT_EQ(std::isnan(map.heat.at(0, t)), t == 2 || t == 5) << t;
        EXPECT_FALSE(std::isnan(softmax.scores.at(0, t)));
        EXPECT_EQ(std::isnan(softmax.scores.at(1, t)), t == 5) << t;
      }
      for (const Feature feature : kAllFeatures) {
        LinearCase<TypeParam> linear(feature, 7, 3, 37);
        linear.k.at(5, 37 + column) = nan;  // a token of head 1
        linear.q.at(0, 74 + column) = nan;  // all of head 2
        am::linear_scores(linear.params());
        for (std::int64_t head = 0; head < 3; ++head)
          for (std::int64_t t = 0; t < 7; ++t)
            EXPECT_EQ(std::isnan(linear.scores.at(head, t)), head == 2 || (head == 1 && t == 5))
                << "map " << static_cast<int>(feature) << ", head " << head << ", token " << t;
      }
    }
  });
}

}  // namespace attention_map_test
}  // namespace hydrascope::kernels::test
