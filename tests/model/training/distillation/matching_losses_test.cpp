#include "model/training/distillation/matching_losses.h"

#include "model/training/autocast.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

namespace hydrascope::model::training {
namespace {

TEST(RowCrossEntropy, IsTheFormula) {
  // (B, H, n, N) = (1, 1, 2, 3)
  const at::Tensor p = at::tensor({0.5, 0.25, 0.25, 0.0, 0.1, 0.9}, at::kDouble).view({1, 1, 2, 3});
  const at::Tensor a = at::tensor({0.2, 0.3, 0.5, 0.4, 0.2, 0.4}, at::kDouble).view({1, 1, 2, 3});
  const double first = -(0.5 * std::log(0.2) + 0.25 * std::log(0.3) + 0.25 * std::log(0.5));
  const double second = -(0.1 * std::log(0.2) + 0.9 * std::log(0.4));
  EXPECT_NEAR(row_cross_entropy(a, p).item<double>(), (first + second) / 2, 1e-12);
  const double entropy = -(0.5 * std::log(0.5) + 0.5 * std::log(0.25));
  const double other = -(0.1 * std::log(0.1) + 0.9 * std::log(0.9));
  EXPECT_NEAR(row_entropy(p).item<double>(), (entropy + other) / 2, 1e-12);
}

TEST(RowCrossEntropy, GradientOfUnnormalisedWeightsIsTheDifferenceOverTheWeight) {
  at::manual_seed(1);
  const at::Tensor w = (at::rand({2, 3, 4, 5}, at::kDouble) + 0.1).requires_grad_();
  const at::Tensor p = at::randn({2, 3, 4, 5}, at::kDouble).softmax(-1);
  const at::Tensor a = w / w.sum(-1, true);
  const at::Tensor gradient = torch::autograd::grad({row_cross_entropy(a, p)}, {w})[0];
  const at::Tensor expected = (a - p) / w / (2 * 3 * 4);
  EXPECT_TRUE(at::allclose(gradient, expected, 1e-10, 1e-14));
}

TEST(RowCrossEntropy, IsSmallestAtTheTeachersRowsAndFiniteAtZero) {
  at::manual_seed(2);
  const at::Tensor p = at::randn({1, 2, 3, 6}, at::kDouble).softmax(-1);
  const at::Tensor other = at::randn({1, 2, 3, 6}, at::kDouble).softmax(-1);
  EXPECT_NEAR(row_cross_entropy(p, p).item<double>(), row_entropy(p).item<double>(), 1e-12);
  EXPECT_GT(row_cross_entropy(other, p).item<double>(), row_entropy(p).item<double>() + 0.1);
  EXPECT_TRUE(std::isfinite(row_cross_entropy(at::zeros_like(p), p).item<double>()));
}

TEST(RelativeError, IsTheMeanOverTheImages) {
  const at::Tensor teacher = at::tensor({3.0, 4.0, 1.0, 0.0}).view({2, 1, 2});
  const at::Tensor student = at::tensor({3.0, 5.0, 0.0, 2.0}).view({2, 1, 2});
  EXPECT_NEAR(relative_error(student, teacher).item<double>(), (1.0 / 25 + 5.0) / 2, 1e-6);
  // Half types are compared in float32.
  EXPECT_EQ(relative_error(student.to(at::kBFloat16), teacher.to(at::kBFloat16)).scalar_type(),
            at::kFloat);
}

TEST(TokenError, AddsTheClassTokensShare) {
  at::manual_seed(3);
  const at::Tensor teacher = at::randn({2, 5, 4});
  const at::Tensor student = at::randn({2, 5, 4});
  const double all = relative_error(student, teacher).item<double>();
  const double of_class =
      relative_error(student.narrow(1, 0, 1), teacher.narrow(1, 0, 1)).item<double>();
  EXPECT_NEAR(token_error(student, teacher, 1, 0.5).item<double>(), all + 0.5 * of_class, 1e-6);
  EXPECT_NEAR(token_error(student, teacher, 0, 0.5).item<double>(), all, 1e-6);
  EXPECT_NEAR(token_error(student, teacher, 5, 0.5).item<double>(), all, 1e-6);
}

TEST(CosineDistance, IsOneMinusTheCosineAndZeroForTheSame) {
  at::manual_seed(3);
  const at::Tensor x = at::randn({2, 5, 7});
  const at::Tensor t = at::randn({2, 5, 7});
  const at::Tensor cosines = (x * t).sum(-1) / (x.norm(2, -1) * t.norm(2, -1));
  EXPECT_NEAR(cosine_distance(x, t).item<double>(), 1 - cosines.mean().item<double>(), 1e-6);
  EXPECT_NEAR(cosine_distance(x, 3 * x).item<double>(), 0, 1e-12);
  EXPECT_EQ(cosine_distance(x, x).item<double>(), 0);
  EXPECT_TRUE(at::isfinite(cosine_distance(at::zeros({1, 3}), at::ones({1, 3}))).item<bool>());
}

TEST(GramError, ComparesSimilaritiesOfPatchesAndNotThePatches) {
  at::manual_seed(4);
  const at::Tensor x = at::randn({2, 5, 7});
  const at::Tensor t = at::randn({2, 5, 7});
  double expected = 0;
  for (std::int64_t image = 0; image < 2; ++image)
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t j = 0; j < 5; ++j) {
        const auto cosine = [&](const at::Tensor& of) {
          const at::Tensor a = of[image][i];
          const at::Tensor b = of[image][j];
          return (a.dot(b) / (a.norm() * b.norm())).item<double>();
        };
        const double difference = cosine(x) - cosine(t);
        expected += difference * difference / 50;
      }
  EXPECT_NEAR(gram_error(x, t).item<double>(), expected, 1e-6);
  EXPECT_EQ(gram_error(x, x).item<double>(), 0);
  // A rotation of all patches leaves their similarities.
  EXPECT_NEAR(gram_error(x.flip({2}), x).item<double>(), 0, 1e-12);
  const AutocastScope scope(Autocast::bfloat16, c10::kCPU);
  EXPECT_NEAR(gram_error(x, t).item<double>(), expected, 1e-6) << "not rounded by autocast";
}

TEST(SampleQueries, HoldsThePrefixAndDistinctPatches) {
  const TokenGrid grid{2, 3, 4};
  const at::Tensor rows = sample_queries(grid, 7, RandomStream{4});
  ASSERT_EQ(rows.numel(), 7);
  EXPECT_EQ(rows[0].item<std::int64_t>(), 0);
  EXPECT_EQ(rows[1].item<std::int64_t>(), 1);
  for (std::int64_t i = 1; i < 7; ++i)
    EXPECT_GT(rows[i].item<std::int64_t>(), rows[i - 1].item<std::int64_t>());
  EXPECT_LT(rows[6].item<std::int64_t>(), grid.num_tokens());
  EXPECT_TRUE(at::equal(rows, sample_queries(grid, 7, RandomStream{4})));
  EXPECT_FALSE(at::equal(rows, sample_queries(grid, 7, RandomStream{5})));
  EXPECT_TRUE(at::equal(sample_queries(grid, 100, RandomStream{4}), at::arange(14, at::kLong)));
  // Every patch is drawn equally often.
  at::Tensor times = at::zeros({grid.num_tokens()}, at::kLong);
  for (std::uint64_t i = 0; i < 1200; ++i)
    times.index_add_(0, sample_queries(grid, 8, RandomStream{i}), at::ones({8}, at::kLong));
  for (std::int64_t token = 2; token < grid.num_tokens(); ++token)
    EXPECT_NEAR(times[token].item<double>(), 600, 90) << token;
}

}  // namespace
}  // namespace hydrascope::model::training
