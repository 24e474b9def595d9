// The differences of a block in training: autocast, stochastic depth, recomputed activations.
#include "model/activation_recomputation.h"
#include "model/registry/mechanisms.h"
#include "model/vision_transformer.h"
#include "tests/error_matchers.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

namespace hydrascope::model {
namespace block_training_test {

VitConfig small() {
  VitConfig config;
  config.img_height = config.img_width = 32;
  config.patch_size = 8;
  config.embed_dim = 24;
  config.depth = 4;
  config.num_classes = 5;
  config.attention = {{"softmax", {}}, {"hedgehog", {}}, {"hydra", {}}, {"softmax", {}}};
  return config;
}

std::vector<at::Tensor> gradients(VisionTransformer& model, const ForwardOptions& options,
                                  bool autocast = false) {
  for (const at::Tensor& parameter : model->parameters()) parameter.mutable_grad().reset();
  at::manual_seed(11);
  const at::Tensor images = at::randn({3, 3, 32, 32});
  at::autocast::set_autocast_enabled(at::kCPU, autocast);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const at::Tensor loss = model->forward(images, options).to(at::kFloat).square().sum();
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  loss.backward();
  std::vector<at::Tensor> all{loss.detach()};
  for (const at::Tensor& parameter : model->parameters()) all.push_back(parameter.grad());
  return all;
}

void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].defined(), b[i].defined()) << i;
    if (a[i].defined()) {
      EXPECT_TRUE(at::equal(a[i], b[i])) << i;
    }
  }
}

TEST(ActivationRecomputationTest, GradientsAreThoseOfAPlainPass) {
  at::manual_seed(1);
  VisionTransformer model(small());
  for (const double rate : {0.0, 0.5}) {
    for (const bool autocast : {false, true}) {
      ForwardOptions plain, recomputed;
      plain.drop_path_rate = recomputed.drop_path_rate = rate;
      recomputed.recompute_blocks = true;
      const auto expected = gradients(model, plain, autocast);
      expect_equal(expected, gradients(model, recomputed, autocast));
    }
  }
}

TEST(MlpChunksTest, GradientsAreThoseOfOnePart) {
  at::manual_seed(1);
  VisionTransformer model(small());
  for (const bool autocast : {false, true}) {
    for (const std::int64_t chunks : {2, 5, 100}) {  // of 17 tokens
      for (const bool recomputes : {false, true}) {
        ForwardOptions in_parts;
        in_parts.drop_path_rate = 0.5;
        const auto expected = gradients(model, in_parts, autocast);
        in_parts.mlp_chunks = chunks;
        in_parts.recompute_blocks = recomputes;
        const auto found = gradients(model, in_parts, autocast);
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
          ASSERT_EQ(found[i].defined(), expected[i].defined()) << i;
          if (!found[i].defined()) continue;
          // Products of other numbers of rows round differently.
          const double rounding = autocast ? 2e-2 : 1e-5;
          EXPECT_LT((found[i] - expected[i]).norm().item<double>(),
                    rounding * expected[i].norm().item<double>() + 1e-9)
              << i << ' ' << chunks << ' ' << recomputes << ' ' << autocast;
        }
      }
    }
  }
}

TEST(AutocastTest, EveryMechanismLearnsAsInFloat32) {
  for (const MechanismEntry* entry : mechanisms()) {
    SCOPED_TRACE(entry->name);
    VitConfig config = small();
    config.depth = 2;
    config.attention = {{entry->name, {}}, {entry->name, {}}};
    at::manual_seed(1);
    VisionTransformer model(config);
    const auto in_float = gradients(model, {});
    const auto cast = gradients(model, {}, /*autocast=*/true);
    for (std::size_t i = 0; i < cast.size(); ++i) {
      ASSERT_EQ(cast[i].defined(), in_float[i].defined()) << i;
      if (!cast[i].defined()) continue;
      const double size = in_float[i].norm().item<double>();
      EXPECT_LT((cast[i] - in_float[i]).norm().item<double>(), 0.1 * size + 1e-3) << i;
    }
  }
}

TEST(ActivationRecomputationTest, FrozenParametersGetNone) {
  at::manual_seed(1);
  VisionTransformer model(small());
  for (const auto& item : model->named_parameters()) {
    if (!item.key().starts_with("blocks.2.mlp") && !item.key().starts_with("head"))
      item.value().set_requires_grad(false);
  }
  ForwardOptions recomputed;
  recomputed.recompute_blocks = true;
  const auto expected = gradients(model, {});
  expect_equal(expected, gradients(model, recomputed));
  EXPECT_FALSE(model->named_parameters()["blocks.3.mlp.fc1.weight"].grad().defined());
  EXPECT_TRUE(model->named_parameters()["blocks.2.mlp.fc1.weight"].grad().defined());
}

TEST(ActivationRecomputationTest, RunsTwiceAndRestoresAutocast) {
  int runs = 0;
  std::vector<bool> autocast;
  const TensorFunction square = [&](const at::Tensor& x) {
    ++runs;
    autocast.push_back(at::autocast::is_autocast_enabled(at::kCPU));
    return x * x;
  };
  const at::Tensor x = at::ones({2}).requires_grad_();
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor y = recomputed_in_backward(square, x, {});
  at::autocast::set_autocast_enabled(at::kCPU, false);
  EXPECT_EQ(runs, 1);
  y.sum().backward();
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(autocast, (std::vector<bool>{true, true}));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
  EXPECT_EQ(x.grad().sum().item<float>(), 4);
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(recomputed_in_backward(square, x, {}).requires_grad());
}

TEST(StochasticDepthTest, KeepsTheMeanPerSample) {
  at::manual_seed(2);
  const BranchScales scales = draw_branch_scales(0.25, at::zeros({8000, 2, 3}));
  for (const at::Tensor& scale : {scales.attention, scales.mlp}) {
    ASSERT_EQ(scale.sizes(), (std::vector<std::int64_t>{8000, 1, 1}));
    EXPECT_TRUE(((scale == 0) | (scale == static_cast<float>(1 / 0.75))).all().item<bool>());
    EXPECT_NEAR(scale.mean().item<float>(), 1, 0.026);  // four standard deviations
  }
  EXPECT_FALSE(at::equal(scales.attention, scales.mlp));
  EXPECT_ERROR(draw_branch_scales(1, at::zeros({1, 1, 1})), invalid_argument, "drop-path");
}

TEST(StochasticDepthTest, ScalesTheBranches) {
  at::manual_seed(3);
  VisionTransformer model(small());
  const at::Tensor x = at::randn({2, 17, 24});
  const TokenGrid grid{1, 4, 4};
  BlockImpl& block = model->block(0);
  const at::Tensor none = at::zeros({2, 1, 1});
  EXPECT_TRUE(at::equal(block.forward(x, grid, Kernels::reference, {none, none}), x));
  const at::Tensor attended =
      x + 2 * block.attention().forward(block.normalise(x), grid, Kernels::reference);
  const at::Tensor found =
      block.forward(x, grid, Kernels::reference, {at::full({2, 1, 1}, 2.0F), none});
  EXPECT_TRUE(at::allclose(found, attended, 1e-5, 1e-6));
}

TEST(StochasticDepthTest, IsForTrainingAlone) {
  at::manual_seed(4);
  VisionTransformer model(small());
  const at::Tensor images = at::randn({2, 3, 32, 32});
  ForwardOptions options;
  options.drop_path_rate = 0.9;
  const at::Tensor plain = model->forward(images);
  EXPECT_FALSE(at::equal(model->forward(images, options), plain));
  model->eval();
  EXPECT_TRUE(at::equal(model->forward(images, options), plain));
}

TEST(HeadLogitsTest, AreBothOfADistilledModel) {
  at::manual_seed(5);
  VitConfig config = small();
  const at::Tensor images = at::randn({2, 3, 32, 32});
  VisionTransformer plain(config);
  EXPECT_FALSE(plain->forward_heads(plain->forward_features(images)).of_distillation.defined());
  config.distilled = true;
  VisionTransformer distilled(config);
  const HeadLogits logits = distilled->forward_heads(distilled->forward_features(images));
  EXPECT_FALSE(at::equal(logits.of_class, logits.of_distillation));
  EXPECT_TRUE(
      at::equal((logits.of_class + logits.of_distillation) / 2, distilled->forward(images)));
}

}  // namespace block_training_test
}  // namespace hydrascope::model
