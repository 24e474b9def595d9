// Identities of forms that no mechanism offers yet (adaptive span, rotary positions, reversible
// blocks, faithfulness curves), on twins written from their equations: what an implementation will
// be compared with.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace hydrascope::testing {
namespace {

using at::Tensor;

/// m_z(x) = clip((R + z - x) / R, 0, 1) (Sukhbaatar et al. 2019, arXiv 1905.07799, equation 5).
double span_mask(double distance, double z, double ramp) {
  return std::clamp((ramp + z - distance) / ramp, 0.0, 1.0);
}

TEST(PositionIdentitiesTest, AttentionCase14AdaptiveSpanMask) {
  const double expected[] = {1, 1, 0.5, 0, 0};
  for (int distance = 2; distance <= 6; ++distance)
    EXPECT_DOUBLE_EQ(span_mask(distance, 3, 2), expected[distance - 2]) << distance;
}

/// Area under probabilities p while patches are deleted or inserted (Petsiuk et al. 2018).
double rise_area(const std::vector<double>& p) {
  double sum = -(p.front() + p.back()) / 2;
  for (const double value : p) sum += value;
  return sum / static_cast<double>(p.size() - 1);
}

TEST(PositionIdentitiesTest, AttentionCase13RiseArea) {
  EXPECT_DOUBLE_EQ(rise_area({1, 0.5, 0}), 0.5);
  EXPECT_DOUBLE_EQ(rise_area({0.25, 0.25, 0.25, 0.25}), 0.25);
}

/// Pairs of channels of x (d) turned by row and column: theta_n = base^(-n / (d/4)), the first half
/// of the pairs by the row, the other by the column.
Tensor rotate(const Tensor& x, double row, double column) {
  const std::int64_t d = x.size(-1);
  constexpr double kBase = 100;
  const Tensor theta = at::pow(kBase, -at::arange(d / 4, at::kDouble) / static_cast<double>(d / 4));
  const Tensor angle = at::cat({theta * row, theta * column});
  const Tensor pairs = x.view({d / 2, 2});
  const Tensor a = pairs.select(1, 0);
  const Tensor b = pairs.select(1, 1);
  return at::stack({a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()}, 1)
      .flatten();
}

TEST(PositionIdentitiesTest, AttentionCase38RotaryPositionsAreRelative) {
  at::manual_seed(3);
  const Tensor q = at::randn({16}, at::kDouble);
  const Tensor k = at::randn({16}, at::kDouble);
  const auto score = [&](double shift_row, double shift_column) {
    return rotate(q, 2 + shift_row, 5 + shift_column)
        .dot(rotate(k, 7 + shift_row, 1 + shift_column))
        .item<double>();
  };
  EXPECT_NEAR(score(0, 0), score(11, -4), 1e-10);
  EXPECT_GT(std::abs(score(0, 0) - q.dot(k).item<double>()), 1e-3);
  EXPECT_NEAR(rotate(q, 9, 4).norm().item<double>(), q.norm().item<double>(), 1e-12);
  EXPECT_TRUE(at::equal(rotate(q, 0, 0), q));
}

TEST(PositionIdentitiesTest, AttentionCase38ReversibleBlockIsUndone) {
  at::manual_seed(4);
  const Tensor w1 = at::randn({8, 8}, at::kDouble);
  const Tensor w2 = at::randn({8, 8}, at::kDouble);
  const auto attention = [&](const Tensor& x) { return x.matmul(w1).softmax(-1); };
  const auto mlp = [&](const Tensor& x) { return x.matmul(w2).tanh(); };
  const Tensor x1 = at::randn({5, 8}, at::kDouble);
  const Tensor x2 = at::randn({5, 8}, at::kDouble);
  const Tensor y1 = x1 + attention(x2);
  const Tensor y2 = x2 + mlp(y1);
  const Tensor back2 = y2 - mlp(y1);
  const Tensor back1 = y1 - attention(back2);
  EXPECT_TRUE(at::allclose(back1, x1, 0, 1e-12));
  EXPECT_TRUE(at::allclose(back2, x2, 0, 1e-12));
}

}  // namespace
}  // namespace hydrascope::testing
