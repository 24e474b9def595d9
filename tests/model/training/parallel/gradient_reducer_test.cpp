#include "model/training/parallel/gradient_reducer.h"

#include "model/vision_transformer.h"
#include "tests/error_matchers.h"
#include "tests/model/training/distillation/small_models.h"
#include "tests/model/training/parallel/ranks.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

namespace hydrascope::model::training {
namespace {

using testing::run_as_ranks;

/// y = sum_i (w_i . x), a parameter a term; ranks have different x.
struct Terms {
  std::vector<at::Tensor> weights;

  explicit Terms(int count, double value) {
    for (int i = 0; i < count; ++i)
      weights.push_back(at::full({3, i + 1}, value + i).requires_grad_(true));
  }
  [[nodiscard]] at::Tensor loss(double x, const std::vector<int>& used) const {
    at::Tensor total = at::zeros({});
    for (const int i : used) total = total + (weights[i] * (x * (i + 1))).sum();
    return total;
  }
  [[nodiscard]] NamedTensors named() const {
    NamedTensors result;
    for (std::size_t i = 0; i < weights.size(); ++i)
      result.emplace_back("w" + std::to_string(i), weights[i]);
    return result;
  }
};

void expect_gradient(const at::Tensor& parameter, double value) {
  ASSERT_TRUE(parameter.grad().defined());
  EXPECT_TRUE(at::equal(parameter.grad(), at::full_like(parameter, value)))
      << parameter.grad() << " is not " << value;
}

TEST(GradientReducerTest, StartsFromRankZero) {
  if (run_as_ranks(2)) return;
  const auto group = join_process_group(c10::kCPU);
  const Terms terms(3, 10.0 * group->rank());
  const GradientReducer reducer(terms.named(), *group);
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(at::equal(terms.weights[i], at::full_like(terms.weights[i], i)));
  EXPECT_TRUE(terms.weights[0].requires_grad());
}

TEST(GradientReducerTest, GradientsAreTheMean) {
  if (run_as_ranks(2)) return;
  const auto group = join_process_group(c10::kCPU);
  const Terms terms(5, 0);
  GradientReducer reducer(terms.named(), *group);
  for (int step = 0; step < 3; ++step) {
    for (const at::Tensor& weight : terms.weights) weight.mutable_grad() = at::Tensor();
    // Rank 0: x = 1, rank 1: x = 5; the mean is 3. The order of the graph does not matter.
    const std::vector<int> order =
        group->is_first() ? std::vector{0, 1, 2, 3, 4} : std::vector{4, 2, 0, 3, 1};
    terms.loss(group->is_first() ? 1 : 5, order).backward();
    reducer.average();
    for (int i = 0; i < 5; ++i) expect_gradient(terms.weights[i], 3.0 * (i + 1));
  }
}

TEST(GradientReducerTest, ParametersThatSomeOrNoRanksUse) {
  if (run_as_ranks(2)) return;
  const auto group = join_process_group(c10::kCPU);
  const Terms terms(4, 0);
  GradientReducer reducer(terms.named(), *group);
  // 0 is used by both, 1 by rank 0, 2 by none, 3 by rank 1.
  terms.loss(1, group->is_first() ? std::vector{0, 1} : std::vector{0, 3}).backward();
  reducer.average();
  expect_gradient(terms.weights[0], 1);
  expect_gradient(terms.weights[1], 0.5 * 2);
  EXPECT_FALSE(terms.weights[2].grad().defined());
  expect_gradient(terms.weights[3], 0.5 * 4);
}

TEST(GradientReducerTest, AnyNumberOfBackwardPassesComesBefore) {
  if (run_as_ranks(2)) return;
  const auto group = join_process_group(c10::kCPU);
  const Terms terms(3, 0);
  GradientReducer reducer(terms.named(), *group);
  const double x = group->is_first() ? 1 : 3;
  terms.loss(x, {0, 1}).backward();
  expect_gradient(terms.weights[0], x);
  terms.loss(10 * x, {0, 2}).backward();
  reducer.average();
  expect_gradient(terms.weights[0], 11 * 2);
  expect_gradient(terms.weights[1], 2 * 2);
  expect_gradient(terms.weights[2], 10 * 3 * 2);
}

TEST(GradientReducerTest, EveryGradientKeepsItsType) {
  if (run_as_ranks(2)) return;
  const auto group = join_process_group(c10::kCPU);
  const std::vector<at::Tensor> weights = {at::zeros({2}, at::kFloat).requires_grad_(true),
                                           at::zeros({2}, at::kDouble).requires_grad_(true),
                                           at::zeros({2}, at::kBFloat16).requires_grad_(true)};
  GradientReducer reducer({{"float", weights[0]}, {"double", weights[1]}, {"bfloat16", weights[2]}},
                          *group);
  const double x = group->is_first() ? 1 : 3;
  (weights[0].sum() * x + weights[1].sum() * x + weights[2].sum() * x).backward();
  reducer.average();
  for (const at::Tensor& weight : weights) {
    expect_gradient(weight, 2);
    EXPECT_EQ(weight.grad().scalar_type(), weight.scalar_type());
  }
}

TEST(GradientReducerTest, TheFirstParameterThatDiffersIsNamed) {
  if (run_as_ranks(2)) return;
  const auto group = join_process_group(c10::kCPU);
  const Terms terms(4, 0);
  GradientReducer reducer(terms.named(), *group);
  reducer.check_equal();
  const c10::NoGradGuard no_grad;
  // Values that are swapped leave a plain sum as it was.
  if (group->rank() == 1) {
    terms.weights[2].view({-1})[0] = 5;
    terms.weights[3].zero_();
  } else {
    terms.weights[2].view({-1})[1] = 5;
  }
  EXPECT_ERROR(reducer.check_equal(), failed, "w2", "1 of 2 ranks");
}

TEST(GradientReducerTest, OneProcessIsLeftAlone) {
  const auto group = make_single_process();
  const Terms terms(2, 0);
  {
    GradientReducer reducer(terms.named(), *group);
    terms.loss(4, {0}).backward();
    reducer.average();
    reducer.check_equal();
  }
  expect_gradient(terms.weights[0], 4);
  EXPECT_FALSE(terms.weights[1].grad().defined());
}

// Performer's random features are a buffer, the patch embedding is frozen.
TEST(SharedWeightsTest, EverythingIsRankZeros) {
  if (run_as_ranks(2)) return;
  const auto group = join_process_group(c10::kCPU);
  const VitConfig config = small_config("performer");
  const auto drawn_from = [&](std::uint64_t seed) {
    at::manual_seed(seed);
    return VisionTransformer(config);
  };
  VisionTransformer model = drawn_from(static_cast<std::uint64_t>(group->rank()));
  model->named_parameters()["patch_embed.proj.weight"].set_requires_grad(false);
  const VisionTransformer expected = drawn_from(0);
  share_weights(*model, *group);
  const auto theirs = named_tensors(*expected);
  const auto ours = named_tensors(*model);
  ASSERT_EQ(ours.size(), theirs.size());
  bool has_buffer = false;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(at::equal(ours[i].second, theirs[i].second)) << ours[i].first;
    has_buffer |= model->named_buffers().contains(ours[i].first);
  }
  EXPECT_TRUE(has_buffer);
  EXPECT_TRUE(model->named_parameters()["head.weight"].requires_grad());
}

}  // namespace
}  // namespace hydrascope::model::training
