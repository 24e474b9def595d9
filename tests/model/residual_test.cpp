// Gates and reversible blocks against their equations, their identities and the form that keeps everything.
#include "model/residual.h"

#include "model/position_embedding.h"
#include "tests/error_matchers.h"
#include "tests/model/finite_difference.h"
#include "tests/model/small_vit.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace hydrascope::model {
namespace residual_test {

VisionTransformer model_with(Residual residual, std::int64_t share_blocks = 0,
                             at::ScalarType type = at::kDouble) {
  VitConfig config = testing::small_vit({.depth = 4}, "softmax:0,hydra:1,softmax:2,hydra:3");
  config.residual = residual;
  config.share_blocks = share_blocks;
  VisionTransformer model = testing::random_vit(config, 3, 0.2);
  model->to(type);
  return model;
}

at::Tensor images(at::ScalarType type = at::kDouble) {
  at::manual_seed(9);
  return at::randn({2, 3, 32, 32}).to(type);
}

std::vector<at::Tensor> gradients_of(const VisionTransformer& model, const at::Tensor& loss) {
  return torch::autograd::grad({loss}, model->parameters(), {}, false, false, true);
}

void expect_near(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected,
                 double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(found[i].defined() && expected[i].defined()) << i;
    EXPECT_LE((found[i] - expected[i]).norm().item<double>(),
              tolerance * (expected[i].norm().item<double>() + 1e-3))
        << i;
  }
}

TEST(GateTest, IsItsEquation) {
  at::manual_seed(1);
  constexpr std::int64_t kDim = 3;
  Gate gate(kDim);
  gate->to(at::kDouble);
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : gate->parameters()) parameter.copy_(at::randn_like(parameter));
  const auto named = gate->named_parameters();
  const at::Tensor x = at::randn({kDim}, at::kDouble);
  const at::Tensor y = at::randn({kDim}, at::kDouble);
  const auto sum = [&](std::int64_t part, const at::Tensor& stream) {  // W_part y + U_part stream
    const auto rows = [&](const char* name) { return named[name].narrow(0, part * kDim, kDim); };
    return at::Tensor(rows("w.weight").mv(y) + rows("u.weight").mv(stream));
  };
  const at::Tensor z = (sum(1, x) - named["bias"]).sigmoid();
  const at::Tensor h = sum(2, sum(0, x).sigmoid() * x).tanh();
  const at::Tensor found = gate->forward(x.view({1, 1, kDim}), y.view({1, 1, kDim}));
  EXPECT_TRUE(testing::all_near(found.flatten(), (1 - z) * x + z * h, 1e-14));
}

TEST(GateTest, ALargeBiasLeavesTheStreamAsItIs) {
  VisionTransformer model = model_with(Residual::gru);
  const at::NoGradGuard no_grad;
  for (const auto& item : model->named_parameters())
    if (item.key().ends_with("gate1.bias") || item.key().ends_with("gate2.bias"))
      item.value().fill_(1e4);
  const TokenGrid grid = model->grid_of(images());
  EXPECT_TRUE(at::equal(model->forward_features(images()),
                        model->forward_norm(model->embed(images(), grid))));
}

TEST(GateTest, GradientsAreThoseOfFiniteDifferences) {
  VisionTransformer model = model_with(Residual::gru);
  const auto loss_of = [&] { return model->forward(images()).square().sum(); };
  const auto gradients = gradients_of(model, loss_of());
  const auto named = model->named_parameters();
  const at::NoGradGuard no_grad;
  std::size_t number = 0;
  for (const auto& item : named) {
    const at::Tensor gradient = gradients[number++];
    if (item.key().find("gate") == std::string::npos) continue;
    const std::int64_t at = item.value().numel() / 2;
    const double expected = testing::central_difference(item.value(), at, 1e-5, loss_of);
    EXPECT_NEAR(gradient.flatten()[at].item<double>(), expected, 1e-6 * (1 + std::abs(expected)))
        << item.key();
  }
}

/// The reversible blocks of a model.
std::vector<ReversibleBlock> blocks_of(VisionTransformer& model, const TokenGrid& grid) {
  std::vector<ReversibleBlock> blocks;
  for (std::int64_t layer = 0; layer < model->config().depth; ++layer) {
    BlockImpl& block = model->block(layer);
    blocks.push_back({[&block, grid](const at::Tensor& x) {
                        return block.attention_branch(x, grid, Kernels::automatic, {});
                      },
                      [&block](const at::Tensor& x) { return block.mlp_branch(x, {}, 1); },
                      weights_of(block)});
  }
  return blocks;
}

/// The equations with everything kept.
at::Tensor stored_form(VisionTransformer& model, const at::Tensor& of) {
  const TokenGrid grid = model->grid_of(of);
  at::Tensor x1 = model->embed(of, grid);
  at::Tensor x2 = x1;
  for (const ReversibleBlock& block : blocks_of(model, grid)) {
    x1 = x1 + block.f(x2);
    x2 = x2 + block.g(x1);
  }
  return model->forward_head(model->forward_norm((x1 + x2) / 2));
}

TEST(ReversibleTest, TheInverseFindsTheStreams) {
  VisionTransformer model = model_with(Residual::reversible);
  const TokenGrid grid = model->grid_of(images());
  const auto blocks = blocks_of(model, grid);
  at::manual_seed(2);
  const Streams begin{at::randn({2, 17, 24}, at::kDouble), at::randn({2, 17, 24}, at::kDouble)};
  const at::NoGradGuard no_grad;
  const Streams found = invert(blocks, run_reversible(blocks, begin));
  EXPECT_LT((found.first - begin.first).abs().max().item<double>(), 1e-12);
  EXPECT_LT((found.second - begin.second).abs().max().item<double>(), 1e-12);
}

TEST(ReversibleTest, GradientsAreThoseOfTheStoredForm) {
  for (const std::int64_t share_blocks : {0, 2}) {
    VisionTransformer model = model_with(Residual::reversible, share_blocks);
    const at::Tensor logits = model->forward(images());
    const at::Tensor stored = stored_form(model, images());
    EXPECT_TRUE(at::equal(logits, stored));
    expect_near(gradients_of(model, logits.square().sum()),
                gradients_of(model, stored.square().sum()), 1e-10);
    {
      const at::NoGradGuard no_grad;
      EXPECT_TRUE(at::equal(model->forward(images()), stored));
    }
    // Parts of the MLP, and depth that is left out at random.
    ForwardOptions options;
    options.mlp_chunks = 3;
    expect_near(gradients_of(model, model->forward(images(), options).square().sum()),
                gradients_of(model, stored_form(model, images()).square().sum()), 1e-10);
  }
}

TEST(ReversibleTest, LearnsUnderAutocastWithPathsLeftOut) {
  VisionTransformer model = model_with(Residual::reversible, 0, at::kFloat);
  const auto all = [&](bool autocast) {
    at::manual_seed(4);
    ForwardOptions options;
    options.drop_path_rate = 0.5;
    at::autocast::set_autocast_enabled(at::kCPU, autocast);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    const at::Tensor loss =
        model->forward(images(at::kFloat), options).to(at::kFloat).square().sum();
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    return gradients_of(model, loss);
  };
  expect_near(all(true), all(false), 0.15);
}

TEST(ReversibleTest, FrozenWeightsGetNoGradient) {
  VisionTransformer model = model_with(Residual::reversible);
  for (const auto& item : model->named_parameters())
    if (!item.key().starts_with("blocks.1.mlp")) item.value().set_requires_grad(false);
  model->forward(images()).square().sum().backward();
  for (const auto& item : model->named_parameters())
    EXPECT_EQ(item.value().grad().defined(), item.key().starts_with("blocks.1.mlp")) << item.key();
}

TEST(ReversibleTest, HasNoSecondDerivativeAndNoSingleStream) {
  VisionTransformer model = model_with(Residual::reversible);
  const at::Tensor loss = model->forward(images()).square().sum();
  EXPECT_ERROR(torch::autograd::grad({loss}, {model->parameters()[0]}, {}, true, true), failed,
               "second derivative");
  std::vector<at::Tensor> inputs;
  ForwardOptions options;
  options.block_inputs = &inputs;
  EXPECT_ERROR(model->forward(images(), options), internal, "one stream");
}

/// Layers that share blocks are layers with blocks of the same weights.
TEST(SharedBlocksTest, AreTheModelWithTheirWeightsInEveryLayer) {
  VisionTransformer shared = model_with(Residual::add, 2);
  VisionTransformer plain = model_with(Residual::add);
  EXPECT_EQ(shared->config().num_blocks(), 2);
  {
    const at::NoGradGuard no_grad;
    auto own = shared->named_parameters();
    for (const auto& item : plain->named_parameters()) {
      std::string name = item.key();
      if (name.starts_with("blocks.")) name[7] = static_cast<char>('0' + (name[7] - '0') % 2);
      item.value().copy_(own[name]);
    }
  }
  const at::Tensor logits = shared->forward(images());
  const at::Tensor expected = plain->forward(images());
  EXPECT_TRUE(at::equal(logits, expected));
  // A shared weight's gradient is the sum over its layers.
  const auto found = gradients_of(shared, logits.square().sum());
  const auto all = gradients_of(plain, expected.square().sum());
  std::size_t number = 0;
  const auto names = plain->named_parameters().keys();
  const auto gradient_of = [&](const std::string& name) {
    return all[static_cast<std::size_t>(std::ranges::find(names, name) - names.begin())];
  };
  for (const auto& item : shared->named_parameters()) {
    at::Tensor sum = gradient_of(item.key());
    if (item.key().starts_with("blocks.")) {
      std::string later = item.key();
      later[7] = static_cast<char>(later[7] + 2);
      sum = sum + gradient_of(later);
    }
    expect_near({found[number++]}, {sum}, 1e-12);
  }
  // As many blocks as layers, and no signal of the step: the model itself.
  VisionTransformer whole = model_with(Residual::add, 4);
  VisionTransformer again = model_with(Residual::add);
  EXPECT_TRUE(at::equal(whole->forward(images()), again->forward(images())));
}

TEST(SharedBlocksTest, EveryPassAddsTheSignalOfItsNumber) {
  const at::Tensor third = step_embedding(3, 6);
  for (std::int64_t pair = 0; pair < 3; ++pair) {
    const double angle = 3 * std::pow(10000.0, -2.0 * static_cast<double>(pair) / 6);
    EXPECT_NEAR(third[2 * pair].item<double>(), std::sin(angle), 1e-6);
    EXPECT_NEAR(third[2 * pair + 1].item<double>(), std::cos(angle), 1e-6);
  }
  VitConfig config = testing::small_vit({.depth = 4});
  config.share_blocks = 2;
  config.step_embed = true;
  VisionTransformer model = testing::random_vit(config, 3, 0.2);
  std::vector<at::Tensor> inputs;
  ForwardOptions options;
  options.block_inputs = &inputs;
  const at::NoGradGuard no_grad;
  model->forward(images(at::kFloat), options);
  const TokenGrid grid = model->grid_of(images(at::kFloat));
  at::Tensor x = model->embed(images(at::kFloat), grid);
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    if (layer % 2 == 0) x = x + step_embedding(layer / 2 + 1, 24);
    EXPECT_TRUE(at::equal(inputs[static_cast<std::size_t>(layer)], x)) << layer;
    x = model->block(layer).forward(x, grid, Kernels::automatic);
  }
}

}  // namespace residual_test
}  // namespace hydrascope::model
