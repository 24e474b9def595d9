#include "model/training/parallel/averaging.h"

#include "model/vision_transformer.h"
#include "tests/model/training/distillation/small_models.h"
#include "tests/model/training/parallel/ranks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hydrascope::model::training {
namespace {

using testing::run_as_ranks;

std::vector<at::Tensor> zeros(std::initializer_list<at::ScalarType> types) {
  std::vector<at::Tensor> parameters;
  for (const at::ScalarType type : types)
    parameters.push_back(at::zeros({2, 3}, type).requires_grad_(true));
  return parameters;
}

void expect_gradient(const at::Tensor& parameter, double value) {
  ASSERT_TRUE(parameter.grad().defined());
  EXPECT_TRUE(at::equal(parameter.grad(), at::full_like(parameter, value)))
      << parameter.grad() << " is not " << value;
}

TEST(AveragingTest, GradientsAreTheMeanOfRanksThatUseOtherParameters) {
  if (run_as_ranks(2)) return;
  const auto group = join_process_group(c10::kCPU);
  const double x = group->is_first() ? 1 : 3;
  for (int step = 0; step < 2; ++step) {
    const auto w = zeros({at::kFloat, at::kDouble, at::kBFloat16, at::kFloat});
    // 0 is used by both in two backward passes, 1 by rank 0, 2 by rank 1, 3 by none.
    (w[0] * x).sum().backward();
    ((w[0] * (10 * x)).sum() + w[group->is_first() ? 1 : 2].sum() * x).backward();
    average_gradients(w, *group);
    expect_gradient(w[0], 22);
    expect_gradient(w[1], 0.5);
    expect_gradient(w[2], 1.5);
    EXPECT_FALSE(w[3].grad().defined());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(w[i].grad().scalar_type(), w[i].scalar_type());
  }
}

TEST(AveragingTest, OneProcessIsLeftAlone) {
  ProcessGroup group;
  const auto w = zeros({at::kFloat, at::kFloat});
  (w[0] * 4).sum().backward();
  average_gradients(w, group);
  expect_gradient(w[0], 4);
  EXPECT_FALSE(w[1].grad().defined());
}

// Performer's random features are a buffer, the patch embedding is frozen.
TEST(AveragingTest, EveryWeightIsRankZeros) {
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
