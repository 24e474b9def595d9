#include "model/training/autocast.h"

#include "model/registry/mechanisms.h"
#include "model/training/losses.h"
#include "tests/model/training/distillation/small_models.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace hydrascope::model::training {
namespace {

bool is_on() { return at::autocast::is_autocast_enabled(at::kCPU); }

TEST(AutocastScopeTest, ParametersAndGradientsStayInFloat32) {
  VisionTransformer model = random_model(small_config("hedgehog:0,softmax:1,hydra:2"));
  const at::Tensor images = random_images(2);
  const at::Tensor targets = at::tensor({1, 4}, at::kLong);
  at::Tensor loss;
  {
    const AutocastScope scope(Autocast::bfloat16, at::kCPU);
    const at::Tensor logits = model->forward(images);
    EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
    loss = cross_entropy(logits, targets);
  }
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  loss.backward();
  std::size_t moved = 0;
  for (const auto& item : model->named_parameters()) {
    EXPECT_EQ(item.value().scalar_type(), at::kFloat) << item.key();
    const at::Tensor& gradient = item.value().grad();
    ASSERT_TRUE(gradient.defined()) << item.key();
    EXPECT_EQ(gradient.scalar_type(), at::kFloat) << item.key();
    EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << item.key();
    moved += gradient.abs().sum().item<double>() > 0 ? 1 : 0;
  }
  EXPECT_GT(moved, model->named_parameters().size() / 2);
}

// Mixers choose their types: sums over tokens in a half type would be wrong. A mixer's result
// under autocast is what it gives for the same q, k and v without.
TEST(AutocastScopeTest, MechanismsRunWithoutIt) {
  const at::NoGradGuard no_grad;
  const at::Tensor images = random_images(2);
  for (const MechanismEntry* entry : mechanisms()) {
    SCOPED_TRACE(entry->name);
    VisionTransformer model = random_model(small_config(entry->name));
    const TokenGrid grid = model->grid_of(images);
    const at::Tensor x = at::randn({2, grid.num_tokens(), model->config().embed_dim});
    for (std::int64_t layer = 0; layer < 3; ++layer) {
      const AttentionTrace trace = [&] {
        const AutocastScope scope(Autocast::bfloat16, at::kCPU);
        return model->block(layer).attention().trace(x, grid, Kernels::reference);
      }();
      EXPECT_EQ(trace.v.scalar_type(), at::kBFloat16);  // the projection before it was cast
      TokenMixer& mixer = model->block(layer).attention().mixer();
      const auto mix = [&] {
        return mixer.mix(trace.q, trace.k, trace.v, grid, Kernels::reference);
      };
      EXPECT_TRUE(at::equal(trace.output, mix())) << layer;
      if (entry->name != "softmax") continue;
      // The comparison can tell: its products under autocast are others.
      const AutocastScope scope(Autocast::bfloat16, at::kCPU);
      EXPECT_FALSE(at::equal(trace.output, mix())) << layer;
    }
  }
}

TEST(AutocastScopeTest, LeavesWhatItFound) {
  const at::ScalarType before = at::autocast::get_autocast_dtype(at::kCPU);
  at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
  ASSERT_FALSE(is_on());
  {
    const AutocastScope outer(Autocast::bfloat16, at::kCPU);
    EXPECT_TRUE(is_on());
    EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kBFloat16);
    {
      const AutocastScope inner(Autocast::off, at::kCPU);
      EXPECT_FALSE(is_on());
    }
    EXPECT_TRUE(is_on());
    EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kBFloat16);
  }
  EXPECT_FALSE(is_on());
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kHalf);
  at::autocast::set_autocast_dtype(at::kCPU, before);
}

// An update between two steps must not meet the copies of the weights before it.
TEST(AutocastScopeTest, CastWeightsLiveAsLongAsTheOutermostScope) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({2, 3});
  const at::Tensor weight = at::randn({3, 4}).requires_grad_();
  at::Tensor first;
  {
    const AutocastScope outer(Autocast::bfloat16, at::kCPU);
    {
      const AutocastScope inner(Autocast::bfloat16, at::kCPU);
      first = x.matmul(weight).detach();
    }
    {
      const at::NoGradGuard no_grad;
      weight.mul_(2);
    }
    EXPECT_TRUE(at::equal(x.matmul(weight).detach(), first));  // cast once a scope
  }
  const AutocastScope next(Autocast::bfloat16, at::kCPU);
  EXPECT_EQ(first.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(x.matmul(weight).detach(), first * 2));
}

}  // namespace
}  // namespace hydrascope::model::training
