// Exits of the CPU's plan against the modules, and against the whole model.
#include "kernels/error.h"
#include "model/class_branch.h"
#include "model/coarse_exit.h"
#include "model/inference/inference_plan.h"
#include "model/inference/modules_engine.h"
#include "tests/model/inference/small_model.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {
namespace plan_exits_test {

VitConfig with_exits(const std::string& attention = "softmax", std::int64_t depth = 4) {
  VitConfig config = testing::small_vit(
      {.edge = 64, .dim = 96, .depth = depth, .heads = 3, .classes = 11}, attention);
  for (std::int64_t layer = 0; layer + 1 < depth; ++layer) config.exits.push_back(layer);
  return config;
}

/// The same with coarse exits, and an overview where windows serve one.
VitConfig with_coarse_exits(const std::string& attention = "softmax") {
  VitConfig config = with_exits(attention);
  config.coarse_exits = true;
  config.overview = attention == "window";
  return config;
}

/// A model whose weights another configuration shares: exits by another rule.
VisionTransformer as(const VisionTransformer& model, const VitConfig& config) {
  VisionTransformer other(config);
  const at::NoGradGuard no_grad;
  for (const auto& item : other->named_parameters())
    item.value().copy_(*model->named_parameters().find(item.key()));
  other->eval();
  for (at::Tensor& parameter : other->parameters()) parameter.set_requires_grad(false);
  return other;
}

InferenceOptions with(Exits exits, InferenceOptions chosen = options()) {
  chosen.exits = exits;
  return chosen;
}

EngineOutputs by_modules(const VisionTransformer& model, Exits exits, const at::Tensor& images) {
  return ModulesEngine(model, with(exits)).compute(images);
}

/// The threshold between the middle scores of the first exit, at which about half of the images leave
/// there.
double middle(const at::Tensor& scores) {
  const at::Tensor sorted = std::get<0>(scores.select(1, 0).sort());
  const std::int64_t half = sorted.size(0) / 2;
  return (sorted[half - 1].item<double>() + sorted[half].item<double>()) / 2;
}

/// Watched exits are the modules', and the whole model answers.
void expect_exits_of_the_modules(const VitConfig& config, const at::Tensor& images) {
  SCOPED_TRACE(to_json(config));
  const VisionTransformer model = filled(config);
  const EngineOutputs wanted = by_modules(model, Exits::watch, images);
  const EngineOutputs found = InferencePlan(model, with(Exits::watch)).compute(images);
  EXPECT_LT((found.exits.scores - wanted.exits.scores).abs().max().item<double>(), 1e-3);
  EXPECT_TRUE(at::equal(found.exits.classes, wanted.exits.classes));
  EXPECT_FALSE(found.exits.layers.defined());
  EXPECT_TRUE(at::equal(found.logits, InferencePlan(model, options()).logits(images)));
}

void expect_exits_of_other_parts(const VitConfig& plain, std::int64_t width,
                                 const std::vector<std::function<void(VitConfig&)>>& changes) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 64, width});
  for (const auto& change : changes) {
    VitConfig config = plain;
    change(config);
    expect_exits_of_the_modules(config, images);
  }
}

TEST(PlanExitsTest, WatchedExitsAreTheModules) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({5, 3, 64, 72});
  for (const char* attention :
       {"softmax", "window:0,hydra:1-3", "hedgehog", "softmax:0,nystrom:1-3"}) {
    VitConfig config = with_exits(attention);
    for (const ExitRule rule :
         {ExitRule::margin, ExitRule::entropy, ExitRule::saturation, ExitRule::learned}) {
      config.exit_rule = rule;
      expect_exits_of_the_modules(config, images);
    }
  }
  expect_exits_of_other_parts(
      with_exits(), 64,
      {[](VitConfig& c) { c.act = Activation::quick_gelu; },
       [](VitConfig& c) { c.act = Activation::gelu_tanh; },
       [](VitConfig& c) { c.distilled = true; }, [](VitConfig& c) { c.reg_tokens = 4; },
       [](VitConfig& c) { c.pos_embed = PosEmbed::layers; },
       [](VitConfig& c) { c.layer_scale = true; }, [](VitConfig& c) { c.num_heads = 6; }});
}

TEST(PlanExitsTest, CoarseExitsAreTheModules) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({5, 3, 104, 136});  // an odd number of rows and columns
  for (const char* attention :
       {"softmax", "window", "window:0,hydra:1-3", "hedgehog", "softmax:0,nystrom:1-3"}) {
    VitConfig config = with_coarse_exits(attention);
    for (const ExitRule rule : {ExitRule::margin, ExitRule::entropy}) {
      config.exit_rule = rule;
      expect_exits_of_the_modules(config, images);
    }
  }
  expect_exits_of_other_parts(
      with_coarse_exits(), 72,
      {[](VitConfig& c) { c.global_pool = Pooling::avg; },
       [](VitConfig& c) { c.swiglu_mlp = true; }, [](VitConfig& c) { c.post_norm = true; },
       [](VitConfig& c) { c.distilled = true; }, [](VitConfig& c) { c.reg_tokens = 4; }});
}

TEST(PlanExitsTest, AThresholdOfOneIsTheWholeModel) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({5, 3, 64, 64});
  for (const char* attention : {"softmax", "window", "hydra", "hedgehog"}) {
    SCOPED_TRACE(attention);
    const VisionTransformer model = filled(with_exits(attention));
    const at::Tensor whole = InferencePlan(model, options()).logits(images);
    const EngineOutputs found = InferencePlan(model, with(Exits::leave)).compute(images);
    EXPECT_TRUE(at::equal(found.logits, whole));
    EXPECT_TRUE(found.exits.layers.eq(3).all().item<bool>());
    EXPECT_FALSE(InferencePlan(model, options()).compute(images).exits.layers.defined());
  }
}

// Images that leave make room for others: nothing of them may stay behind.
TEST(PlanExitsTest, ABatchIsItsImagesOneByOne) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({9, 3, 64, 72});
  for (const auto& [attention, coarse] :
       std::vector<std::pair<std::string, bool>>{{"softmax", false},
                                                 {"window:0-1,hydra:2-3", false},
                                                 {"hydra", false},
                                                 {"hedgehog", false},
                                                 {"window", false},
                                                 {"neighborhood", false},
                                                 {"nystrom", false},
                                                 {"softmax", true},
                                                 {"window", true},
                                                 {"hedgehog", true}}) {
    for (const auto& [dtype, int8] :
         {std::pair{at::kFloat, false}, {at::kBFloat16, false}, {at::kBFloat16, true}}) {
      SCOPED_TRACE(attention + ' ' + c10::toString(dtype) + (int8 ? " int8" : "") +
                   (coarse ? " coarse" : ""));
      VitConfig config = coarse ? with_coarse_exits(attention) : with_exits(attention);
      const VisionTransformer model = filled(config);
      InferenceOptions chosen = options(dtype, 3);
      chosen.precision.int8 = int8;
      chosen.deterministic = true;
      const EngineOutputs watched =
          InferencePlan(model, with(Exits::watch, chosen)).compute(images);
      config.exit_threshold = middle(watched.exits.scores);
      const VisionTransformer leaving = as(model, config);
      InferencePlan plan(leaving, with(Exits::leave, chosen));
      const EngineOutputs found = plan.compute(images);
      EXPECT_LT(found.exits.layers.min().item<std::int64_t>(), 3);
      EXPECT_GT(found.exits.layers.max().item<std::int64_t>(), 0);
      for (std::int64_t i = 0; i < images.size(0); ++i) {
        const EngineOutputs one = plan.compute(images.narrow(0, i, 1));
        EXPECT_TRUE(at::equal(one.logits[0], found.logits[i])) << i;
        EXPECT_EQ(one.exits.layers[0].item<std::int64_t>(),
                  found.exits.layers[i].item<std::int64_t>());
        // The first exit above the threshold, by what was watched.
        std::int64_t layer = 0;
        while (layer < 3 && !(watched.exits.scores[i][layer].item<float>() > config.exit_threshold))
          ++layer;
        EXPECT_EQ(found.exits.layers[i].item<std::int64_t>(), layer);
        if (layer == 3) {
          EXPECT_TRUE(at::equal(found.logits[i], watched.logits[i]));
        } else {
          EXPECT_EQ(found.logits[i].argmax().item<std::int64_t>(),
                    watched.exits.classes[i][layer].item<std::int64_t>());
        }
      }
      EXPECT_TRUE(at::equal(plan.compute(images).logits, found.logits)) << "again";
    }
  }
}

TEST(PlanExitsTest, ImagesLeaveWhereTheModulesSay) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({7, 3, 104, 136});
  VitConfig config = with_exits("window");
  config.overview = true;
  config.exits = {1, 2};
  config.exit_rule = ExitRule::learned;
  const VisionTransformer model = filled(config);
  config.exit_threshold = middle(by_modules(model, Exits::watch, images).exits.scores);
  const VisionTransformer leaving = as(model, config);
  const EngineOutputs wanted = by_modules(leaving, Exits::leave, images);
  const EngineOutputs found = InferencePlan(leaving, with(Exits::leave)).compute(images);
  EXPECT_TRUE(at::equal(found.exits.layers, wanted.exits.layers));
  EXPECT_TRUE(wanted.exits.layers.eq(1).any().item<bool>());
  EXPECT_LT(relative(found.logits, wanted.logits), 1e-4);
}

TEST(PlanExitsTest, TracesAreOfTheWholeModel) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 64, 64});
  VitConfig config = with_exits();
  config.exit_threshold = -1;
  InferenceOptions tracing = with(Exits::leave);
  tracing.trace_layers = {3};
  const VisionTransformer model = filled(config);
  const EngineOutputs found = InferencePlan(model, tracing).compute(images);
  EXPECT_FALSE(found.exits.layers.defined());
  EXPECT_TRUE(at::equal(found.logits, InferencePlan(model, options()).logits(images)));
}

TEST(CoarseExitTest, TokensAreMeansOfTwoByTwoPatches) {
  TokenGrid grid{2, 3, 5, 1, 2};
  const at::Tensor tokens = at::randn({2, grid.num_tokens(), 4}, at::kDouble);
  const at::Tensor found = coarse_tokens(tokens, grid);
  ASSERT_EQ(found.size(1), 2 + 2 * 3 + 2);
  EXPECT_TRUE(at::equal(found.slice(1, 0, 2), tokens.slice(1, 0, 2)));
  EXPECT_TRUE(at::equal(found.slice(1, 8), tokens.slice(1, 17)));
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t column = 0; column < 3; ++column) {
      at::Tensor sum = at::zeros({2, 4}, at::kDouble);
      std::int64_t count = 0;
      for (std::int64_t r = 2 * row; r < std::min<std::int64_t>(3, 2 * row + 2); ++r) {
        for (std::int64_t c = 2 * column; c < std::min<std::int64_t>(5, 2 * column + 2); ++c) {
          sum += tokens.select(1, 2 + r * 5 + c);
          ++count;
        }
      }
      EXPECT_LT(relative(found.select(1, 2 + row * 3 + column), sum / count), 1e-12);
    }
  }
}

// Behind the last layer but one the branch's block is the model's last block, of which the class token alone
// goes on.
TEST(ClassBranchTest, TheTrunksOwnWeightsBeforeItsLastBlockAreTheModel) {
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, 64, 64});
  for (const auto& change : std::vector<std::function<void(VitConfig&)>>{
           [](VitConfig&) {}, [](VitConfig& c) { c.layer_scale = true; },
           [](VitConfig& c) { c.qkv_bias = false; }, [](VitConfig& c) { c.reg_tokens = 4; },
           [](VitConfig& c) { c.act = Activation::quick_gelu; }}) {
    VitConfig config = with_exits();
    config.exits = {1, 2};
    change(config);
    VisionTransformer model = filled(config);
    const c10::InferenceMode inference;
    start_from_trunk(model->class_branch(), WeightTable(model));
    std::vector<at::Tensor> inputs;
    ForwardOptions forward{Kernels::reference};
    forward.block_inputs = &inputs;
    const at::Tensor whole = model->forward(images, forward);
    EXPECT_LT(relative(model->class_branch().forward(inputs[3], 2).logits, whole), 1e-5);
    EXPECT_GT(relative(model->class_branch().forward(inputs[2], 1).logits, whole), 1e-3);
    EXPECT_EQ(model->class_branch().forward(inputs[3], 2).stop.abs().max().item<double>(), 0);
  }
}

}  // namespace plan_exits_test
}  // namespace hydrascope::model::inference
