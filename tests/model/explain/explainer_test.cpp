#include "model/explain/explainer.h"

#include "model/explain/image_explanations.h"
#include "tests/error_matchers.h"
#include "tests/model/explain/brute_force.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace hydrascope::testing {
namespace {

using model::VitConfig;
using model::explain::Explainer;
using model::explain::Explanation;
using model::explain::MaplessLayers;
using model::explain::Method;
using model::explain::Request;
using ::testing::ElementsAre;

const char* const kMixed = "softmax:0,hydra:1,hedgehog:2";

std::vector<std::int64_t> traced_layers(const VitConfig& config,
                                        const std::vector<Request>& requests) {
  return Explainer::traced_layers(config, requests);
}

TEST(ExplainerTest, TracesTheLayersThatAMethodReads) {
  VitConfig config = small_config(kMixed);
  config.depth = 5;
  config.attention.resize(5);
  EXPECT_THAT(traced_layers(config, {{Method::attention, 4}}), ElementsAre(4));
  EXPECT_THAT(traced_layers(config, {{Method::attention, 3}, {Method::attention, 0}}),
              ElementsAre(0, 3));
  EXPECT_THAT(traced_layers(config, {{Method::hydra, 4}}), ElementsAre(4));
  EXPECT_THAT(traced_layers(config, {{Method::hydra, 2}}), ElementsAre(2, 3, 4));
  EXPECT_THAT(traced_layers(config, {{Method::gradcam, 3}}), ElementsAre(3, 4));
  EXPECT_THAT(traced_layers(config, {{Method::rollout, 2}}), ElementsAre(0, 1, 2));
  EXPECT_THAT(traced_layers(config, {{Method::rollout, 0}, {Method::hydra, 4}}), ElementsAre(0, 4));
  EXPECT_THAT(traced_layers(config, {{Method::grad_rollout, 1}}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(traced_layers(config, {{Method::attn_gradcam, 4}}), ElementsAre(0, 1, 2, 3, 4));
}

std::vector<Request> every_kind() {
  return {{Method::hydra, 2, 3},
          {Method::gradcam, 1, 3},
          {Method::attention, 2},
          {Method::hydra, 2, 8, true},
          {Method::rollout, 2},
          {Method::attn_gradcam, 1, 8},
          {Method::hydra, 0, 8},
          {Method::rollout, 1, 0, false, MaplessLayers::cosine},
          {Method::grad_rollout, 2, 3},
          {Method::gradcam, 2, 8},
          {Method::attention, 0, 0, true},
          {Method::hydra, 1, 3, true}};
}

TEST(ExplainerTest, SeveralRequestsAtOnceAreTheSingleOnes) {
  for (const bool pooled : {false, true}) {
    VitConfig config = small_config(kMixed);
    if (pooled) config.global_pool = model::Pooling::avg;
    const BruteForce truth(config, 8, 8, 12);
    const std::vector<Request> requests = every_kind();
    const std::vector<Explanation> together = truth.explain(requests);
    ASSERT_EQ(together.size(), requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Explanation alone = truth.explain(requests[i]);
      EXPECT_LT(relative_to_largest(all_heat(together[i]), all_heat(alone).to(at::kDouble)), 1e-5)
          << "request " << i;
      EXPECT_NEAR(together[i].own_share, alone.own_share, 1e-5);
      EXPECT_EQ(together[i].note, alone.note);
      EXPECT_EQ(together[i].rules, alone.rules);
      EXPECT_EQ(together[i].request.layer, requests[i].layer);
    }
  }
}

// The heat of the overview's patches is shared among the patches beneath them: nothing is lost.
TEST(ExplainerTest, AnOverviewLiesOverThePicture) {
  VitConfig config = small_config("window");
  config.overview = true;
  const std::int64_t side = config.grid_rows() + 3;
  const BruteForce truth(config, side, side + 1, 12);
  for (const Request& request : {Request{Method::attention, 2}, Request{Method::hydra, 2, 3}}) {
    const Explanation found = truth.explain(request);
    EXPECT_EQ(found.map.sizes(), at::IntArrayRef({side, side + 1}));
    EXPECT_NEAR(all_heat(found).sum().item<double>(), found.total,
                1e-5 * all_heat(found).abs().sum().item<double>());
  }
}

TEST(ExplainerTest, SharesOfAnOverviewHaveNoSteps) {
  for (const auto& [count, reduced] : {std::pair{68, 14}, {120, 14}, {14, 14}, {17, 14}, {9, 14}}) {
    const at::Tensor shares = model::explain::overview_shares(count, reduced);
    const double side = static_cast<double>(count) / reduced;
    EXPECT_LT((shares.sum(0) - 1).abs().max().item<double>(), 1e-12);
    // An even overview makes an even map: a patch has 1 / side of what lies above it.
    EXPECT_LT((shares.sum(1) * side - 1).abs().max().item<double>(), 0.15) << count;
    // Shared by area, the step from a patch to the next would be 1 / side.
    if (count > 4 * reduced) {
      EXPECT_LT(shares.diff(1, 0).abs().max().item<double>(), 0.35 / side) << count;
    }
  }
  EXPECT_TRUE(at::equal(model::explain::overview_shares(14, 14), at::eye(14, at::kDouble)));
}

// The gradient of a logit grows with the vector of its class; the bias has no part in it.
TEST(ExplainerTest, ClassVectorsTakeThePlaceOfTheClassifier) {
  const BruteForce truth(small_config(kMixed), 8, 8, 15);
  const std::vector<Request> requests{{Method::hydra, 2, 3}, {Method::hydra, 1, 8}};
  at::Tensor weight;
  at::Tensor bias;
  const auto fill = [&, filled = truth.fill()](model::VisionTransformerImpl& modules,
                                               std::span<const std::int64_t> layers) {
    filled(modules, layers);
    for (const auto& [name, tensor] : model::named_tensors(modules)) {
      if (name == "head.weight") weight = tensor.clone();
      if (name == "head.bias") bias = tensor.clone();
    }
  };
  Explainer explainer(truth.config(), requests, fill);
  const at::Tensor tokens = truth.traced(traced_layers(truth.config(), requests));
  explainer.set_class_vectors(2 * weight);
  const std::vector<Explanation> found = explainer.explain(tokens, truth.grid(), requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const at::Tensor heat = all_heat(truth.explain(requests[i])).to(at::kDouble);
    EXPECT_LT(relative_to_largest(all_heat(found[i]), 2 * heat), 1e-5) << "request " << i;
  }
  explainer.set_class_vectors(weight);
  EXPECT_LT(relative_to_largest(explainer.logits(tokens, truth.grid()) + bias,
                                truth.logits().to(at::kDouble)),
            1e-4);
}

TEST(ExplainerTest, OwnShareIsTheClassTokens) {
  VitConfig config = small_config(kMixed);
  config.reg_tokens = 2;
  const BruteForce truth(config, 8, 8, 14);
  for (const Method method : {Method::hydra, Method::attention}) {
    const Explanation found = truth.explain({method, 2, 3, true});
    const double of_class_token = found.prefix.select(1, 0).sum().item<double>();
    const double size = all_heat(found).abs().sum().item<double>();
    EXPECT_NEAR(found.own_share, of_class_token / size, 1e-6);
    const double of_head = model::explain::class_token_share(config, found.map[1], found.prefix[1]);
    EXPECT_NEAR(of_head,
                (found.prefix[1][0] / (found.map[1].abs().sum() + found.prefix[1].abs().sum()))
                    .item<double>(),
                1e-6);
    config.class_token = false;
    EXPECT_EQ(model::explain::class_token_share(config, found.map, found.prefix), 0);
    config.class_token = true;
    EXPECT_NEAR(found.total, all_heat(found).sum().item<double>(), 1e-5 * size);
  }
}

/// Nothing but the layers asked for is read: all others hold NaN.
TEST(ExplainerTest, ReadsNoOtherLayer) {
  const BruteForce truth(small_config(kMixed), 8, 8, 16);
  const std::vector<Request> requests{{Method::hydra, 1, 3}, {Method::gradcam, 2, 3}};
  std::vector<std::int64_t> filled;
  Explainer explainer(
      truth.config(), requests,
      [&](model::VisionTransformerImpl& model, std::span<const std::int64_t> layers) {
        truth.fill()(model, layers);
        filled.assign(layers.begin(), layers.end());
        for (const auto& [name, tensor] : model::named_tensors(model))
          if (name.starts_with("blocks.0.") || name.starts_with("patch_embed") ||
              name == "pos_embed")
            tensor.fill_(std::numeric_limits<double>::quiet_NaN());
      });
  EXPECT_THAT(filled, ElementsAre(1, 2));
  const at::Tensor tokens = truth.traced(filled);
  const auto found = explainer.explain(tokens, truth.grid(), requests);
  EXPECT_LT(relative_to_largest(all_heat(found[0]), truth.heat(requests[0])), 1e-4);
  EXPECT_LT(relative_to_largest(all_heat(found[1]), truth.heat(requests[1])), 1e-4);
  EXPECT_LT(relative_to_largest(explainer.logits(tokens, truth.grid()), truth.logits().detach()),
            1e-5);
  const std::vector<Request> beyond{{Method::attention, 0}};
  EXPECT_ERROR(explainer.explain(tokens, truth.grid(), beyond), internal, "layers");
}

TEST(ExplainerTest, ClassesMayDifferFromCallToCall) {
  const BruteForce truth(small_config(kMixed), 8, 8, 17);
  const std::vector<Request> first{{Method::hydra, 2, 0}};
  Explainer explainer(truth.config(), first, truth.fill());
  const std::vector<Request> second{{Method::hydra, 2, 10}, {Method::hydra, 2, 4}};
  const auto found = explainer.explain(truth.traced({2}), truth.grid(), second);
  for (std::size_t i = 0; i < second.size(); ++i)
    EXPECT_LT(relative_to_largest(all_heat(found[i]), truth.heat(second[i])), 1e-4);
}

TEST(ExplainerTest, LogitsAreTheModels) {
  for (const bool pooled : {false, true}) {
    VitConfig config = small_config(kMixed);
    if (pooled) config.global_pool = model::Pooling::avg;
    const BruteForce truth(config, 6, 5, 18);
    const std::vector<Request> requests{{Method::attention, 2}};
    Explainer explainer(config, requests, truth.fill());
    const at::Tensor logits = explainer.logits(truth.traced({2}), truth.grid());
    EXPECT_LT(relative_to_largest(logits, truth.logits().detach()), 1e-5);
  }
  const BruteForce truth(small_config(kMixed), 8, 8, 18);
  const std::vector<Request> requests{{Method::attention, 0}};
  Explainer explainer(truth.config(), requests, truth.fill());
  EXPECT_ERROR(explainer.logits(truth.traced({0}), truth.grid()), internal, "last layer");
}

TEST(ExplainerTest, APatchsRowIsThatOfTheMap) {
  for (const char* mechanism : {"softmax", "hedgehog", "nystrom", "window"}) {
    const BruteForce truth(mechanism_config(mechanism), 6, 5, 22);
    const std::vector<Request> requests{{Method::hydra, 1, 0}};
    Explainer explainer(truth.config(), requests, truth.fill());
    for (const auto& [row, column] : {std::pair{0, 0}, {2, 3}, {5, 4}}) {
      const at::Tensor found =
          explainer.patch_row(truth.traced({1, 2}), truth.grid(), 1, row, column);
      const std::int64_t first = truth.grid().num_prefix;
      const at::Tensor expected =
          truth.map(1).mean(0).select(0, first + row * 5 + column).narrow(0, first, 30);
      EXPECT_EQ(found.sizes(), (at::IntArrayRef{6, 5}));
      EXPECT_LT(relative_to_largest(found.flatten(), expected), 1e-4) << mechanism;
    }
  }
  const BruteForce truth(small_config(kMixed), 8, 8, 22);
  const std::vector<Request> requests{{Method::hydra, 1, 0}};
  Explainer explainer(truth.config(), requests, truth.fill());
  const at::Tensor tokens = truth.traced({1, 2});
  EXPECT_ERROR(explainer.patch_row(tokens, truth.grid(), 1, 0, 0), invalid_argument,
               "hydra has no attention map");
  EXPECT_ERROR(explainer.patch_row(tokens, truth.grid(), 0, 0, 0), invalid_argument, "not at hand");
  EXPECT_ERROR(explainer.patch_row(tokens, truth.grid(), 3, 0, 0), invalid_argument, "0 to 2");
  EXPECT_ERROR(explainer.patch_row(tokens, truth.grid(), 2, 8, 0), invalid_argument, "8 x 8");
  EXPECT_ERROR(explainer.patch_row(tokens, truth.grid(), 2, 0, -1), invalid_argument, "0,-1");
}

/// Tokens come out of a classifier: in inference mode, in half precision where it computes so.
TEST(ExplainerTest, TakesTokensAsAClassifierLeavesThem) {
  const BruteForce truth(small_config(kMixed), 8, 8, 19);
  const std::vector<Request> requests = every_kind();
  std::vector<Explanation> found;
  {
    const c10::InferenceMode inference;
    Explainer explainer(truth.config(), requests, truth.fill());
    const at::Tensor tokens = truth.traced({0, 1, 2}).clone();
    ASSERT_TRUE(tokens.is_inference());
    found = explainer.explain(tokens, truth.grid(), requests);
    const auto halves = explainer.explain(tokens.to(at::kBFloat16), truth.grid(), requests);
    EXPECT_LT(relative_to_largest(all_heat(halves[2]), all_heat(found[2]).to(at::kDouble)), 0.1);
    EXPECT_EQ(halves[2].map.scalar_type(), at::kFloat);
  }
  for (std::size_t i = 0; i < requests.size(); ++i)
    EXPECT_LT(relative_to_largest(all_heat(found[i]), truth.heat(requests[i])), 1e-4);
}

TEST(ExplainerTest, RandomWeightsWhereNothingFills) {
  const VitConfig config = small_config(kMixed);
  const std::vector<Request> requests{{Method::hydra, 2, 3}};
  at::manual_seed(20);
  Explainer explainer(config, requests, {});
  const auto found = explainer.explain(at::randn({1, 65, 96}), {1, 8, 8}, requests);
  EXPECT_TRUE(found[0].map.isfinite().all().item<bool>());
  EXPECT_GT(found[0].map.abs().max().item<double>(), 0);
}

TEST(ExplainerTest, WhatItRefuses) {
  const BruteForce truth(small_config(kMixed), 8, 8, 21);
  EXPECT_ERROR(truth.explain({Method::attention, 1}), invalid_argument,
               "hydra has no attention map", "hydra, rollout, grad-rollout, gradcam, attn-gradcam");
  EXPECT_ERROR(truth.explain({Method::hydra, 3}), invalid_argument, "0 to 2, not 3");
  EXPECT_ERROR(truth.explain({Method::hydra, -1}), invalid_argument, "0 to 2, not -1");
  EXPECT_ERROR(truth.explain({Method::hydra, 2, 11}), invalid_argument, "0 to 10, not 11");
  EXPECT_ERROR(truth.explain({Method::gradcam, 2, 1, true}), invalid_argument, "single head",
               "gradcam");
  EXPECT_NO_THROW(truth.explain({Method::attention, 2, 11}));
  const std::vector<Request> requests{{Method::hydra, 2, 1}};
  Explainer explainer(truth.config(), requests, truth.fill());
  EXPECT_ERROR(explainer.explain(truth.traced({1, 2}), truth.grid(), requests), internal,
               "(1, 65, 96)");
  EXPECT_ERROR(explainer.explain(truth.traced({2}), {1, 8, 9}, requests), internal, "(1, 73, 96)");
}

}  // namespace
}  // namespace hydrascope::testing
