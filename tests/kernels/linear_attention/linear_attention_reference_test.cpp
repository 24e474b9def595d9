// The gradients of the twin against central differences of the twin's own forward, in float64.
#include "tests/kernels/linear_attention/linear_attention_reference.h"

#include <gtest/gtest.h>

#include <random>

namespace hydrascope::kernels::test {
namespace linear_attention_reference_test {

namespace la = linear_attention;
using la::Feature;
using Division = la::Normaliser::Rule;

struct Problem {
  la::Shape shape;
  std::int64_t queries;
  std::int64_t keys;
  std::vector<double> q, k, v, g;
  TokenWeights weights{2, 0.75, 1.25};

  Problem(const la::Shape& shape_, std::int64_t queries_, std::int64_t keys_)
      : shape(shape_), queries(queries_), keys(keys_) {
    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    const auto fill = [&](std::vector<double>& values, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) values.push_back(normal(random));
    };
    fill(q, queries * shape.num_heads * shape.width);
    fill(k, keys * shape.num_heads * shape.width);
    fill(v, keys * shape.num_heads * shape.head_dim);
    fill(g, queries * shape.num_heads * shape.head_dim);
  }
  [[nodiscard]] la::Tokens<double> tokens() const {
    const std::int64_t w = shape.num_heads * shape.width;
    return {shape, q.data(), w, queries, k.data(), w, v.data(), shape.num_heads * shape.head_dim,
            keys,  weights};
  }
  /// sum of g * y
  [[nodiscard]] double loss() const {
    double sum = 0;
    for (std::int64_t i = 0; i < queries; ++i) {
      const la::Mixed mixed = la::linear_attention_reference(tokens(), i);
      const std::vector<double>& y = mixed.y.values;
      for (std::size_t c = 0; c < y.size(); ++c)
        sum += y[c] * g[static_cast<std::size_t>(i) * y.size() + c];
    }
    return sum;
  }
  [[nodiscard]] la::Gradients gradients() const {
    return la::linear_attention_backward_reference(tokens(), g.data(),
                                                   shape.num_heads * shape.head_dim);
  }
  void compare() {
    const la::Gradients found = gradients();
    compare(q, found.q, "q");
    compare(k, found.k, "k");
    compare(v, found.v, "v");
  }
  void compare(std::vector<double>& x, const twin::Sums& found, const char* what) {
    ASSERT_EQ(found.values.size(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      constexpr double kStep = 1e-5;
      const double middle = x[i];
      x[i] = middle + kStep;
      const double above = loss();
      x[i] = middle - kStep;
      const double expected = (above - loss()) / (2 * kStep);
      x[i] = middle;
      EXPECT_NEAR(found.values[i], expected, 1e-7) << what << " " << i;
      EXPECT_GE(found.magnitudes[i] + 1e-12, std::abs(found.values[i])) << what << " " << i;
    }
  }
};

TEST(LinearAttentionBackwardReference, EqualsCentralDifferences) {
  for (const Feature feature : la::kAllFeatures) {
    for (const Division division : {Division::add_eps, Division::none}) {
      // a.z of unit vectors may come near 0, where differences say little.
      if (feature == Feature::unit && division == Division::add_eps) continue;
      SCOPED_TRACE("map " + std::to_string(static_cast<int>(feature)) + ", normaliser " +
                   std::to_string(static_cast<int>(division)));
      Problem({2, 3, 4, {feature, {division, 0.01F}}}, 4, 5).compare();
      Problem({1, 4, 1, {feature, {division, 0.01F}}}, 2, 3).compare();
    }
  }
}

TEST(LinearAttentionBackwardReference, ADominatingEpsStillHasAGradient) {
  Problem({1, 3, 2, {Feature::unit, {Division::add_eps, 50}}}, 3, 4).compare();
}

TEST(LinearAttentionBackwardReference, RowsShorterThanTheLeastNormAreConstants) {
  const la::Gradients found =
      Problem({1, 3, 2, {Feature::unit, {Division::none, 0}, 1e6F}}, 3, 4).gradients();
  for (const double x : found.q.values) EXPECT_EQ(x, 0);
  for (const double x : found.k.values) EXPECT_EQ(x, 0);
}

TEST(LinearAttentionBackwardReference, EqualMaximaShare) {
  Problem problem({1, 3, 2, {Feature::exp_centred}}, 1, 2);
  problem.q = {2, 2, -1};
  const std::vector<double> tied = problem.gradients().q.values;
  // Any subgradient leaves the sum over u at 0: adding a constant to u changes no exponent.
  EXPECT_NEAR(tied[0] + tied[1] + tied[2], 0, 1e-12);
  problem.q = {2 + 1e-9, 2, -1};
  const std::vector<double> first = problem.gradients().q.values;
  problem.q = {2, 2 + 1e-9, -1};
  const std::vector<double> second = problem.gradients().q.values;
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(tied[i], (first[i] + second[i]) / 2, 1e-7);
}

}  // namespace linear_attention_reference_test
}  // namespace hydrascope::kernels::test
