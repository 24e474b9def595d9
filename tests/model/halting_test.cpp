// Tokens that leave: the model where none does, loops over the scores, and both ways of computing.
#include "model/halting.h"

#include "tests/error_matchers.h"
#include "tests/model/finite_difference.h"
#include "tests/model/small_vit.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <vector>

namespace hydrascope::model {
namespace halting_test {

constexpr std::int64_t kDepth = 4;

VisionTransformer model_with(bool halting, double scale, double center,
                             at::ScalarType type = at::kFloat) {
  VitConfig config = testing::small_vit({.depth = kDepth}, "softmax");
  config.halting = halting;
  config.gate_scale = scale;
  config.gate_center = center;
  VisionTransformer model = testing::random_vit(config, 3, 0.2);
  model->to(type);
  model->eval();
  return model;
}

at::Tensor images(at::ScalarType type = at::kFloat) {
  at::manual_seed(9);
  return at::randn({3, 3, 32, 32}).to(type);
}

TEST(HaltingTest, ALargeCenterIsTheModel) {
  VisionTransformer plain = model_with(false, 10, 30);
  VisionTransformer halting = model_with(true, 10, 1e9);
  HaltingCost cost;
  ForwardOptions options;
  options.halting = &cost;
  const at::NoGradGuard no_grad;
  const at::Tensor one = images().narrow(0, 0, 1);
  EXPECT_TRUE(at::equal(halting->forward(one, options), plain->forward(one)));
  EXPECT_TRUE(at::equal(cost.layers, at::full({1, 17}, kDepth, at::kLong)));
  EXPECT_TRUE(testing::all_near(halting->forward(images()), plain->forward(images()), 1e-5));
  plain->train();
  halting->train();
  EXPECT_TRUE(at::equal(halting->forward(images(), options), plain->forward(images())));
  EXPECT_EQ(cost.ponder.item<float>(), 5.0F);  // the remainder is all
}

TEST(HaltingTest, SharesAndCostsAreThoseOfTheEquations) {
  // Scores by layer and token: p = sigmoid(x_0), as gate_scale 1 and gate_center 0 have it.
  const std::vector<std::vector<double>> scores{
      {0.3, 0.995, 0.5, 0.1}, {0.2, 0.9, 0.5, 0.1}, {0.1, 0.9, 0.9, 0.1}, {0.1, 0.9, 0.9, 0.1}};
  VitConfig config = testing::small_vit({.depth = 4}, "softmax");
  config.halting = true;
  config.gate_scale = 1;
  config.gate_center = 0;
  const auto outputs = [&](std::int64_t layer) {
    at::Tensor y = at::zeros({1, 4, 2}, at::kDouble);
    for (std::int64_t token = 0; token < 4; ++token) {
      const double p = scores[static_cast<std::size_t>(layer)][static_cast<std::size_t>(token)];
      y[0][token][0] = std::log(p / (1 - p));
      y[0][token][1] = static_cast<double>(10 * layer + token);
    }
    return y;
  };
  std::vector<at::Tensor> seen;
  const auto whole = [&](std::int64_t layer, const at::Tensor&, const at::Tensor& visible) {
    seen.push_back(visible);
    return outputs(layer);
  };
  HaltingCost cost;
  const at::Tensor tokens = at::zeros({1, 4, 2}, at::kDouble);
  const at::Tensor found = run_halting(config, tokens, whole, /*masked=*/true, cost);
  // The class token stays to the end: its last share is 1 - 0.3 - 0.2 - 0.1.
  EXPECT_NEAR(found[0][0][1].item<double>(), 0.3 * 0 + 0.2 * 10 + 0.1 * 20 + 0.4 * 30, 1e-12);
  EXPECT_EQ(found[0][1][1].item<double>(), 1);   // left behind layer 0
  EXPECT_EQ(found[0][2][1].item<double>(), 12);  // 0.5 + 0.5 at layer 1
  EXPECT_EQ(found[0][3][1].item<double>(), 33);
  const at::Tensor layers = at::tensor({4, 1, 2, 4}, at::kLong).unsqueeze(0);
  EXPECT_TRUE(at::equal(cost.layers, layers));
  EXPECT_NEAR(cost.ponder.item<double>(), (4 + 0.4 + 1 + 1 + 2 + 0.5 + 4 + 0.7) / 4, 1e-12);
  // Leavers are seen by themselves alone.
  EXPECT_FALSE(seen[0].defined());
  for (std::int64_t layer = 1; layer < 4; ++layer)
    for (std::int64_t row = 0; row < 4; ++row)
      for (std::int64_t column = 0; column < 4; ++column)
        EXPECT_EQ(seen[static_cast<std::size_t>(layer)][0][0][row][column].item<bool>(),
                  row == column || layers[0][column].item<std::int64_t>() > layer)
            << layer << row << column;
  // Those that stay are computed, and no others.
  std::vector<std::int64_t> computed;
  const std::vector<std::vector<std::int64_t>> places{{0, 1, 2, 3}, {0, 2, 3}, {0, 3}, {0, 3}};
  const auto some = [&](std::int64_t layer, const at::Tensor& x, const at::Tensor& visible) {
    EXPECT_FALSE(visible.defined());
    computed.push_back(x.size(1));
    return outputs(layer).index_select(
        1,
        at::tensor(at::ArrayRef<std::int64_t>(places[static_cast<std::size_t>(layer)]), at::kLong));
  };
  HaltingCost of_gathered;
  EXPECT_TRUE(at::equal(run_halting(config, tokens, some, /*masked=*/false, of_gathered), found));
  EXPECT_EQ(computed, (std::vector<std::int64_t>{4, 3, 2, 2}));
  EXPECT_TRUE(at::equal(of_gathered.layers, layers));
}

/// Random weights with scores of all sizes. The class token's first feature keeps it to the end, or lets it
/// go.
VisionTransformer leaving(bool class_token_stays, at::ScalarType type = at::kFloat) {
  VisionTransformer model = model_with(true, 3, 1, type);
  const at::NoGradGuard no_grad;
  model->named_parameters()["cls_token"][0][0][0] = class_token_stays ? -3.0 : 0.3;
  return model;
}

TEST(HaltingTest, HiddenTokensAreTokensThatAreNotThere) {
  for (const bool stays : {true, false}) {
    SCOPED_TRACE(stays);
    VisionTransformer model = leaving(stays);
    HaltingCost gathered, masked;
    ForwardOptions options;
    options.halting = &gathered;
    const at::NoGradGuard no_grad;
    const at::Tensor found = model->forward(images(), options);
    model->train();
    options.halting = &masked;
    EXPECT_TRUE(testing::all_near(found, model->forward(images(), options), 1e-5));
    EXPECT_TRUE(at::equal(gathered.layers.select(1, 0), masked.layers.select(1, 0)));
    EXPECT_EQ((gathered.layers.select(1, 0) == kDepth).all().item<bool>(), stays);
    // Pictures that are done compute nothing more.
    EXPECT_TRUE((gathered.layers <= masked.layers).all().item<bool>());
    EXPECT_EQ(at::equal(gathered.layers, masked.layers), stays);
    const auto mean = masked.layers.to(at::kFloat).mean().item<float>();
    EXPECT_GT(mean, 1.0F);
    EXPECT_LT(mean, 3.5F);
    // A batch is its pictures.
    model->eval();
    EXPECT_TRUE(
        testing::all_near(model->forward(images().narrow(0, 1, 1)), found.narrow(0, 1, 1), 1e-6));
  }
}

TEST(HaltingTest, GradientsAreThoseOfFiniteDifferences) {
  VisionTransformer model = leaving(true, at::kDouble);
  model->train();
  HaltingCost cost;
  ForwardOptions options;
  options.halting = &cost;
  const auto loss_of = [&] {
    const at::Tensor logits = model->forward(images(at::kDouble), options);
    return logits.square().sum() + 0.1 * cost.ponder;
  };
  const auto gradients =
      torch::autograd::grad({loss_of()}, model->parameters(), {}, false, false, true);
  // Recomputed blocks find the same.
  options.recompute_blocks = true;
  options.mlp_chunks = 2;
  const auto recomputed =
      torch::autograd::grad({loss_of()}, model->parameters(), {}, false, false, true);
  const at::NoGradGuard no_grad;
  std::size_t number = 0;
  for (const auto& item : model->named_parameters()) {
    const at::Tensor gradient = gradients[number];
    ASSERT_TRUE(gradient.defined()) << item.key();
    EXPECT_LE((gradient - recomputed[number++]).norm().item<double>(),
              1e-9 * (1 + gradient.norm().item<double>()))
        << item.key();
    const std::int64_t at = item.value().numel() / 3;
    const double expected = testing::central_difference(item.value(), at, 1e-6, loss_of);
    EXPECT_NEAR(gradient.flatten()[at].item<double>(), expected, 1e-5 * (1 + std::abs(expected)))
        << item.key();
  }
}

}  // namespace halting_test
}  // namespace hydrascope::model
