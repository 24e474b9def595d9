#include "kernels/attention_map/attention_map_cuda.h"

#include "kernels/attention_map/attention_map_geometry.h"
#include "kernels/error.h"
#include "tests/kernels/attention_map/attention_map_reference.h"
#include "tests/kernels/token_rows.h"

#include <gtest/gtest.h>

namespace hydrascope::kernels::test {
namespace attention_map_cuda_test {

namespace am = attention_map;
namespace la = linear_attention;
using am::HydraMeasure;
using la::Feature;

constexpr Feature kFeatures[] = {Feature::elu_plus_one, Feature::relu,       Feature::unit,
                                 Feature::exp,          Feature::exp_pair,   Feature::softmax_pair,
                                 Feature::softmax_both, Feature::exp_centred};
constexpr std::int64_t kTokens[] = {0, 1, 2, 31, 32, 33, 197};
constexpr Layout kLayouts[] = {Layout::packed, Layout::odd};
const float kNaN = std::numeric_limits<float>::quiet_NaN();

template <class T>
class AttentionMapCuda : public DeviceTest {};
using Stored = testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(AttentionMapCuda, Stored);
class AttentionMapWeightsCuda : public DeviceTest {};

/// Results are float32: all that errs is a sum of `terms` terms, by half a unit of its magnitude a
/// term, and a few products around it. Below 1e-37 weights count as zero.
void expect_equal(TokenRows<float>& found, const am::Expected& expected, std::int64_t terms,
                  const std::string& what) {
  found.download();
  found.expect(0, expected, static_cast<double>(terms + 8) * 6e-8, what, 1e-37);
}

/// A vector of T that a pack's load can begin at, or, odd, cannot.
template <class T>
struct Vector {
  std::vector<T> host;
  DeviceArray<T> device;
  std::size_t begin;

  Vector(std::int64_t count, Layout layout, Fill how, unsigned seed)
      : host(filled(count, layout, how, seed)),
        device(host),
        begin(layout == Layout::odd ? 1 : 0) {}
  static std::vector<T> filled(std::int64_t count, Layout layout, Fill how, unsigned seed) {
    std::vector<T> values(static_cast<std::size_t>(count));
    fill(values, how, seed);
    if (layout == Layout::odd) values.insert(values.begin(), T(kNaN));
    return values;
  }
  const T* data() const { return device.data() + begin; }
  const T* on_host() const { return host.data() + begin; }
  T& at(std::int64_t i) { return host[begin + static_cast<std::size_t>(i)]; }
  void upload() { device = DeviceArray<T>(host); }
};

/// k, v and w of one picture.
template <class T>
struct HydraCase {
  std::int64_t rows;
  std::int64_t dim;
  TokenRows<T> k;
  TokenRows<T> v;
  Vector<float> weight;
  TokenRows<float> heat;
  hydra::Kernel kernel;
  HydraMeasure measure = HydraMeasure::sum;

  HydraCase(std::int64_t rows_, std::int64_t dim_, Layout layout, Fill how = Fill::normal)
      : rows(rows_),
        dim(dim_),
        k(1, rows, dim, layout, how, 1),
        v(1, rows, dim, layout, how, 2),
        weight(dim, layout, how, 3),
        heat(1, 1, rows, Layout::packed) {}
  am::HydraMapParams<T> params() {
    return {weight.data(), k.data(), v.data(), k.stride(), rows,    dim,
            kernel,        2,        0.5F,     1.25F,      measure, heat.data()};
  }
  am::HydraMapParams<T> on_host() {
    auto p = params();
    p.weight = weight.on_host();
    p.k = k.host_of(0);
    p.v = v.host_of(0);
    return p;
  }
  void run() {
    am::cuda::hydra_map(params(), nullptr);
    heat.download();
  }
  void compare() {
    run();
    expect_equal(heat, am::hydra_map_reference(on_host()), dim, "hydra_map");
  }
};

TYPED_TEST(AttentionMapCuda, HydraMapEqualsTheTwin) {
  for (const Layout layout : kLayouts)
    for (const HydraMeasure measure : {HydraMeasure::sum, HydraMeasure::squares}) {
      const auto compare = [&](std::int64_t rows, std::int64_t dim) {
        HydraCase<TypeParam> map(rows, dim, layout);
        map.measure = measure;
        for_each_schedule([&] { map.compare(); });
      };
      for (const std::int64_t rows : kTokens) compare(rows, 64);
      for (const std::int64_t dim : {1, 8, 97, 264}) compare(7, dim);
      compare(577, 16);
      compare(5, 768);
    }
}

TYPED_TEST(AttentionMapCuda, HydraMapEqualsTheTwinForEveryNormEpsAndInput) {
  for (const Fill how : kAllFills)
    for (const hydra::Norm norm : {hydra::Norm::l2, hydra::Norm::l1, hydra::Norm::none})
      for (const hydra::Eps rule : {hydra::Eps::max, hydra::Eps::rsqrt, hydra::Eps::add})
        for (const float eps : {1e-6F, 5.0F})
          for (const HydraMeasure measure : {HydraMeasure::sum, HydraMeasure::squares}) {
            HydraCase<TypeParam> map(7, 40, Layout::packed, how);
            map.kernel = {hydra::Norm::none, norm, rule, eps};
            map.measure = measure;
            map.compare();
          }
}

template <class T>
struct SoftmaxCase {
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t head_dim;
  Vector<T> q;
  TokenRows<T> k;
  TokenRows<float> scores;

  SoftmaxCase(std::int64_t rows_, std::int64_t heads_, std::int64_t head_dim_, Layout layout,
              Fill how = Fill::normal)
      : rows(rows_),
        heads(heads_),
        head_dim(head_dim_),
        q(heads * head_dim, layout, how, 1),
        k(1, rows, heads * head_dim, layout, how, 2),
        scores(1, heads, rows, Layout::odd) {}
  am::SoftmaxScoresParams<T> params() {
    return {q.data(), k.data(), k.stride(), rows, heads, head_dim, scores.data(), scores.stride()};
  }
  void run() {
    am::cuda::softmax_scores(params(), nullptr);
    scores.download();
  }
  void compare() {
    run();
    auto p = params();
    p.q = q.on_host();
    p.k = k.host_of(0);
    expect_equal(scores, am::softmax_scores_reference(p), head_dim, "softmax_scores");
  }
};

TYPED_TEST(AttentionMapCuda, SoftmaxScoresEqualTheTwin) {
  for (const Layout layout : kLayouts) {
    for_each_schedule([&] {
      for (const std::int64_t rows : kTokens) SoftmaxCase<TypeParam>(rows, 3, 64, layout).compare();
    });
    for (const std::int64_t head_dim : {1, 7, 16, 33, 48, 80, 128})
      SoftmaxCase<TypeParam>(35, 2, head_dim, layout).compare();
    SoftmaxCase<TypeParam>(577, 1, 32, layout).compare();
    for (const Fill how : kAllFills) SoftmaxCase<TypeParam>(13, 2, 40, layout, how).compare();
  }
}

template <class T>
struct LinearCase {
  la::Shape shape;
  std::int64_t rows;
  Vector<T> q;
  TokenRows<T> k;
  TokenRows<float> scores;
  float prefix_weight = 0.75F;
  float patch_weight = 0.2F;

  LinearCase(Feature feature, std::int64_t rows_, std::int64_t heads, std::int64_t width,
             Fill how = Fill::normal)
      : shape{heads, width, 1, feature, la::Normaliser::add_eps, 1e-6F, 1e-6F},
        rows(rows_),
        q(heads * width, Layout::odd, how, 1),
        k(1, rows, heads * width, Layout::odd, how, 2),
        scores(1, heads, rows, Layout::odd) {}
  am::LinearScoresParams<T> params() {
    return {shape, q.data(),      k.data(),     k.stride(),    rows,
            2,     prefix_weight, patch_weight, scores.data(), scores.stride()};
  }
  void run() {
    am::cuda::linear_scores(params(), nullptr);
    scores.download();
  }
  void compare() {
    run();
    auto p = params();
    p.q = q.on_host();
    p.k = k.host_of(0);
    expect_equal(scores, am::linear_scores_reference(p), shape.features(), "linear_scores");
  }
};

TYPED_TEST(AttentionMapCuda, LinearScoresEqualTheTwinForEveryMap) {
  for (const Feature feature : kFeatures) {
    SCOPED_TRACE("map " + std::to_string(static_cast<int>(feature)));
    for_each_schedule([&] {
      for (const std::int64_t rows : {0, 1, 33})
        LinearCase<TypeParam>(feature, rows, 2, 16).compare();
    });
    for (const std::int64_t width : {1, 5, 37, 64})
      LinearCase<TypeParam>(feature, 7, 2, width).compare();
    for (const Fill how : kAllFills) LinearCase<TypeParam>(feature, 6, 2, 40, how).compare();
  }
  LinearCase<TypeParam>(Feature::exp_pair, 198, 1, 16).compare();
}

TYPED_TEST(AttentionMapCuda, LinearScoresOfTokensThatDoNotCountAreZeroOrItsLogarithm) {
  for (const Feature feature : kFeatures) {
    LinearCase<TypeParam> map(feature, 5, 1, 20);
    map.prefix_weight = 0;
    map.compare();
    EXPECT_EQ(map.scores.at(0, 0, 1),
              la::is_exponential(feature) ? -std::numeric_limits<float>::infinity() : 0.0F);
  }
  // So are those of keys without a feature.
  LinearCase<TypeParam> map(Feature::exp, 5, 1, 20);
  for (std::int64_t i = 0; i < 20; ++i)
    map.k.at(0, 3, i) = TypeParam(-std::numeric_limits<float>::infinity());
  map.k.upload();
  map.run();
  EXPECT_EQ(map.scores.at(0, 0, 3), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isfinite(map.scores.at(0, 0, 2)));
}

template <class T>
struct HeatCase {
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t head_dim;
  TokenRows<float> weights;
  Vector<float> gradient;
  TokenRows<T> v;
  TokenRows<float> heat;

  HeatCase(std::int64_t rows_, std::int64_t heads_, std::int64_t head_dim_, Layout layout,
           Fill how = Fill::normal)
      : rows(rows_),
        heads(heads_),
        head_dim(head_dim_),
        weights(1, heads, rows, layout, how, 1),
        gradient(heads * head_dim, layout, how, 2),
        v(1, rows, heads * head_dim, layout, how, 3),
        heat(1, 1, rows, Layout::packed) {}
  am::ValueHeatParams<T> params() {
    return {weights.data(), weights.stride(), gradient.data(), v.data(), v.stride(), rows,
            heads,          head_dim,         heat.data()};
  }
  void run() {
    am::cuda::value_heat(params(), nullptr);
    heat.download();
  }
  void compare() {
    run();
    auto p = params();
    p.weights = weights.host_of(0);
    p.gradient = gradient.on_host();
    p.v = v.host_of(0);
    expect_equal(heat, am::value_heat_reference(p), heads * head_dim, "value_heat");
  }
};

TYPED_TEST(AttentionMapCuda, ValueHeatEqualsTheTwin) {
  for (const Layout layout : kLayouts) {
    for_each_schedule([&] {
      for (const std::int64_t rows : kTokens) HeatCase<TypeParam>(rows, 3, 64, layout).compare();
    });
    for (const std::int64_t head_dim : {1, 7, 16, 33, 48, 80, 128})
      HeatCase<TypeParam>(35, 2, head_dim, layout).compare();
    HeatCase<TypeParam>(577, 1, 32, layout).compare();
    HeatCase<TypeParam>(9, 12, 64, layout).compare();
    for (const Fill how : kAllFills) HeatCase<TypeParam>(13, 2, 40, layout, how).compare();
  }
}

TYPED_TEST(AttentionMapCuda, NanReachesItsTokenAndItsHead) {
  const TypeParam nan(kNaN);
  for (const Layout layout : kLayouts)
    for (const std::int64_t column : {0, 21, 39}) {
      HydraCase<TypeParam> map(7, 40, layout);
      map.k.at(0, 2, column) = nan;
      map.v.at(0, 5, column) = nan;
      map.k.upload();
      map.v.upload();
      map.run();
      SoftmaxCase<TypeParam> softmax(7, 2, 40, layout);
      softmax.k.at(0, 5, 40 + column) = nan;
      softmax.k.upload();
      softmax.run();
      HeatCase<TypeParam> heat(7, 2, 40, layout);
      heat.v.at(0, 2, column) = nan;
      heat.weights.at(0, 1, 5) = kNaN;
      heat.v.upload();
      heat.weights.upload();
      heat.run();
      for (std::int64_t t = 0; t < 7; ++t) {
        EXPECT_EQ(std::isnan(map.heat.at(0, 0, t)), t == 2 || t == 5) << t;
        EXPECT_FALSE(std::isnan(softmax.scores.at(0, 0, t)));
        EXPECT_EQ(std::isnan(softmax.scores.at(0, 1, t)), t == 5) << t;
        EXPECT_EQ(std::isnan(heat.heat.at(0, 0, t)), t == 2 || t == 5) << t;
      }
      for (const Feature feature : kFeatures) {
        LinearCase<TypeParam> linear(feature, 7, 3, 40);
        linear.k.at(0, 5, 40 + column) = nan;  // a token of head 1
        linear.q.at(80 + column) = nan;        // all of head 2
        linear.k.upload();
        linear.q.upload();
        linear.run();
        for (std::int64_t head = 0; head < 3; ++head)
          for (std::int64_t t = 0; t < 7; ++t)
            EXPECT_EQ(std::isnan(linear.scores.at(0, head, t)), head == 2 || (head == 1 && t == 5))
                << "map " << static_cast<int>(feature) << ", head " << head << ", token " << t;
      }
    }
}

TYPED_TEST(AttentionMapCuda, ATokenDependsOnNoOtherToken) {
  for (const Layout layout : kLayouts)
    for (const std::int64_t first : {3, 40}) {
      HydraCase<TypeParam> map(45, 40, layout);
      map.run();
      const auto heat = map.heat.host();
      auto p = map.params();
      p.k += first * p.stride;
      p.v += first * p.stride;
      p.rows -= first;
      p.num_prefix -= first;
      am::cuda::hydra_map(p, nullptr);
      map.heat.download();
      SoftmaxCase<TypeParam> softmax(45, 2, 40, layout);
      softmax.run();
      const auto scores = softmax.scores.host();
      auto s = softmax.params();
      s.k += first * s.k_stride;
      s.rows -= first;
      am::cuda::softmax_scores(s, nullptr);
      softmax.scores.download();
      for (std::int64_t t = first; t < 45; ++t) {
        EXPECT_EQ(map.heat.at(0, 0, t - first), heat[static_cast<std::size_t>(t)]);
        EXPECT_EQ(softmax.scores.at(0, 1, t - first),
                  scores[static_cast<std::size_t>(softmax.scores.stride() + t)]);
      }
    }
}

TEST_F(AttentionMapWeightsCuda, NormaliseEqualsTheTwin) {
  for (const am::Weights rule : {am::Weights::softmax, am::Weights::over_sum, am::Weights::raw}) {
    for (const Fill how : kAllFills) {
      SCOPED_TRACE("rule " + std::to_string(static_cast<int>(rule)) + ", fill " +
                   std::to_string(static_cast<int>(how)));
      for (const std::int64_t tokens : {0, 1, 33, 577, 2065}) {
        if (tokens > 33 && how != Fill::normal && how != Fill::large) continue;
        for_each_schedule([&] {
          TokenRows<float> scores(1, 2, tokens, Layout::odd, how, 4);
          const auto expected =
              am::normalise_reference(scores.host_of(0), scores.stride(), 2, tokens, rule, 1e-6F);
          am::cuda::normalise(scores.data(), scores.stride(), 2, tokens, rule, 1e-6F, nullptr);
          expect_equal(scores, expected, tokens / 1024 + 10, "normalise");
        });
      }
    }
  }
}

TEST_F(AttentionMapWeightsCuda, ManyTokensAddUpToOne) {
  for (const am::Weights rule : {am::Weights::softmax, am::Weights::over_sum}) {
    std::vector<float> values(32401);
    fill(values, Fill::ramp, 0);
    for (float& s : values) s += rule == am::Weights::softmax ? 30.0F : 2.0F;
    DeviceArray<float> scores(values);
    am::cuda::normalise(scores.data(), 32401, 1, 32401, rule, 0, nullptr);
    double sum = 0;
    for (const float weight : scores.download()) sum += static_cast<double>(weight);
    EXPECT_NEAR(sum, 1, 1e-6);
    EXPECT_TRUE(scores.intact());
  }
}

TEST_F(AttentionMapWeightsCuda, TokensAtMinusInfinityWeighNothingAndNanPoisonsItsHead) {
  for (const std::int64_t at : {0, 20, 36}) {
    TokenRows<float> scores(1, 2, 37, Layout::odd, Fill::normal, 5);
    scores.at(0, 0, at) = -std::numeric_limits<float>::infinity();
    scores.at(0, 1, at) = kNaN;
    scores.upload();
    am::cuda::normalise(scores.data(), scores.stride(), 2, 37, am::Weights::softmax, 0, nullptr);
    scores.download();
    EXPECT_EQ(scores.at(0, 0, at), 0.0F);
    double sum = 0;
    for (std::int64_t t = 0; t < 37; ++t) {
      sum += static_cast<double>(scores.at(0, 0, t));
      EXPECT_TRUE(std::isnan(scores.at(0, 1, t)));
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST_F(AttentionMapWeightsCuda, MeanOverHeadsEqualsTheTwin) {
  for (const std::int64_t heads : {1, 3, 12})
    for (const std::int64_t rows : {0, 1, 31, 257}) {
      TokenRows<float> weights(1, heads, rows, Layout::odd, Fill::normal, 6);
      TokenRows<float> heat(1, 1, rows, Layout::packed);
      am::cuda::mean_over_heads(weights.data(), weights.stride(), heads, rows, heat.data(),
                                nullptr);
      expect_equal(heat,
                   am::mean_over_heads_reference(weights.host_of(0), weights.stride(), heads, rows),
                   heads, "mean_over_heads");
    }
}

TEST_F(AttentionMapWeightsCuda, RefusesSizesThatItCannotCount) {
  EXPECT_THROW(
      am::cuda::normalise(nullptr, 0, 1, std::int64_t{1} << 40, am::Weights::softmax, 0, nullptr),
      Error);
}

TEST(AttentionMapGeometry, IsLegalForManyRows) {
  for (const std::int64_t rows : {1, 32401, 1 << 30}) {
    EXPECT_EQ(device::illegal(am::cuda::rows_geometry(rows)), "");
    EXPECT_EQ(device::illegal(am::cuda::scores_geometry(rows, 16)), "");
    EXPECT_EQ(device::illegal(am::cuda::mean_geometry(rows)), "");
  }
}

}  // namespace attention_map_cuda_test
}  // namespace hydrascope::kernels::test
