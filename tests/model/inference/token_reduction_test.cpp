// Dropped tokens against the same done with the modules, step by step.
#include "model/attention/hydra_attention.h"
#include "model/inference/inference_plan.h"
#include "tests/error_matchers.h"
#include "tests/model/inference/rounding_twin.h"
#include "tests/model/inference/small_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <memory>
#include <string>

namespace hydrascope::model::inference {
namespace {

template <class Module>
std::shared_ptr<Module> child(torch::nn::Module& parent, const std::string& name) {
  return std::dynamic_pointer_cast<Module>(parent.named_children()[name]);
}

/// How much each token gives to the class token, as its mechanism counts it: (N), of normalised rows
/// (1, N, D).
at::Tensor class_heat(AttentionImpl& attention, const at::Tensor& rows, bool hydra,
                      const TokenGrid& grid) {
  const auto parts = child<torch::nn::LinearImpl>(attention, "qkv")->forward(rows).chunk(3, 2);
  const at::Tensor q = split_heads(parts[0], 3);
  const at::Tensor k = split_heads(parts[1], 3);
  const at::Tensor v = split_heads(parts[2], 3);
  if (hydra) {
    const auto& mixer = dynamic_cast<const HydraMixer&>(attention.mixer());
    const at::Tensor gate = unit_rows(merge_heads(q)).narrow(1, 0, 1);
    return (gate * mixer.global_terms(k, v, grid)).square().sum(-1).squeeze(0);
  }
  return attention.mixer().attention_rows(q, k, grid, 0, 1).mean(1).flatten().abs();
}

/// The model's answer (1, classes) when behind the attention of `layer` only the class token and
/// the `patches` best patches go on. The image has the model's own size.
at::Tensor reduced_logits(VisionTransformer& model, const at::Tensor& image, std::int64_t layer,
                          std::int64_t patches, bool hydra) {
  const c10::InferenceMode inference;
  const VitConfig& config = model->config();
  auto parameters = model->named_parameters();
  const at::Tensor embedded = child<PatchEmbedImpl>(*model, "patch_embed")->forward(image);
  at::Tensor x = at::cat({parameters["cls_token"], embedded}, 1) + parameters["pos_embed"];
  TokenGrid grid{1, config.grid_rows(), config.grid_columns()};
  for (std::int64_t l = 0; l < config.depth; ++l) {
    BlockImpl& block = model->block(l);
    if (l != layer) {
      x = block.forward(x, grid, Kernels::reference);
      continue;
    }
    const at::Tensor rows = child<torch::nn::LayerNormImpl>(block, "norm1")->forward(x);
    const at::Tensor heat = class_heat(block.attention(), rows, hydra, grid);
    x = x + block.attention().forward(rows, grid, Kernels::reference);
    const at::Tensor ranked = std::get<1>(heat.slice(0, 1).sort(/*stable=*/true, 0, true));
    const at::Tensor best = ranked.narrow(0, 0, patches) + 1;
    const at::Tensor order = std::get<0>(at::cat({at::zeros({1}, best.options()), best}).sort());
    x = x.index_select(1, order);
    const at::Tensor norm2 = child<torch::nn::LayerNormImpl>(block, "norm2")->forward(x);
    x = x + child<MlpImpl>(block, "mlp")->forward(norm2);
    grid = {1, 1, patches};
  }
  return model->forward_head(child<torch::nn::LayerNormImpl>(*model, "norm")->forward(x));
}

InferenceOptions keeping(double share, std::int64_t layer, at::ScalarType dtype = at::kFloat) {
  InferenceOptions chosen = options(dtype);
  chosen.keep_tokens = share;
  chosen.keep_layer = layer;
  return chosen;
}

TEST(TokenReduction, EqualsTheModulesOnTheTokensThatAreKept) {
  at::manual_seed(11);
  const at::Tensor images = at::randn({2, 3, 64, 64});
  for (const char* attention :
       {"softmax", "hydra", "hedgehog", "elu", "hydra:0,softmax:1,hedgehog:2",
        "softmax:0,hedgehog:1,hydra:2", "mla"}) {
    SCOPED_TRACE(attention);
    VitConfig config = small(attention);
    for (AttentionSpec& spec : config.attention) {
      // Its weight of a token would follow the number of tokens that are left.
      if (spec.mechanism == "hydra" || spec.mechanism == "mla") spec.options["scale"] = "none";
      // Signed weights, and the form that has kernels.
      if (spec.mechanism == "mla") spec.options["norm_scope"] = "head";
    }
    VisionTransformer model = filled(config);
    for (const std::int64_t layer : {0, 1}) {
      const bool hydra = config.attention[static_cast<std::size_t>(layer)].mechanism == "hydra";
      for (const std::int64_t patches : {1, 20, 63}) {
        SCOPED_TRACE(std::to_string(patches) + " patches behind layer " + std::to_string(layer));
        InferencePlan plan(model, keeping(static_cast<double>(patches) / 64, layer));
        const at::Tensor found = plan.logits(images);
        for (std::int64_t i = 0; i < 2; ++i)
          EXPECT_LT(relative(found.narrow(0, i, 1),
                             reduced_logits(model, images.narrow(0, i, 1), layer, patches, hydra)),
                    1e-4);
      }
    }
  }
}

// Keys are zero, so all tokens give as much; values are not.
TEST(TokenReduction, OfEqualTokensTheFirstAreKept) {
  at::manual_seed(12);
  const at::Tensor image = at::randn({1, 3, 64, 64});
  VisionTransformer model = filled(small("softmax"));
  {
    const at::NoGradGuard no_grad;
    for (const char* name : {"blocks.1.attn.qkv.weight", "blocks.1.attn.qkv.bias"})
      model->named_parameters()[name].narrow(0, 96, 96).zero_();
  }
  InferencePlan plan(model, keeping(20.0 / 64, 1));
  EXPECT_LT(relative(plan.logits(image), reduced_logits(model, image, 1, 20, /*hydra=*/false)),
            1e-4);
}

// Their tokens lie in another order, in which those that are kept go on.
TEST(TokenReduction, BehindWindowsEqualsTheModules) {
  at::manual_seed(11);
  const at::Tensor image = at::randn({1, 3, 64, 64});
  for (const char* attention : {"window:0,softmax:1,hedgehog:2", "window:0,hydra:1,softmax:2"}) {
    SCOPED_TRACE(attention);
    VitConfig config = small(attention);
    config.attention[0].options["size"] = "3";
    if (config.attention[1].mechanism == "hydra") config.attention[1].options["scale"] = "none";
    VisionTransformer model = filled(config);
    InferencePlan plan(model, keeping(20.0 / 64, 1));
    EXPECT_EQ(plan.describe().kernels, "fused");
    EXPECT_LT(
        relative(plan.logits(image),
                 reduced_logits(model, image, 1, 20, config.attention[1].mechanism == "hydra")),
        1e-4);
  }
}

TEST(TokenReduction, KeepingAllIsTheFullModelAndSizesMayChange) {
  at::manual_seed(11);
  const at::Tensor images = at::randn({1, 3, 64, 64});
  VisionTransformer model = filled(small("hydra"));
  const at::Tensor whole = InferencePlan(model, options()).logits(images);
  EXPECT_TRUE(at::equal(InferencePlan(model, keeping(0.999, 1)).logits(images), whole));
  EXPECT_FALSE(at::equal(InferencePlan(model, keeping(0.5, 1)).logits(images), whole));
  // Other sizes, and back, on one plan.
  InferencePlan plan(model, keeping(0.5, 1));
  const at::Tensor half = plan.logits(images);
  (void)plan.logits(at::randn({2, 3, 96, 40}));
  EXPECT_TRUE(at::equal(plan.logits(images), half));
}

TEST(TokenReduction, InBfloat16AndInt8ToTheSameTokensButForTies) {
  at::manual_seed(11);
  const at::Tensor images = at::randn({1, 3, 64, 64});
  for (const char* attention : {"softmax", "hydra"}) {
    SCOPED_TRACE(attention);
    VisionTransformer model = filled(small(attention));
    for (const bool int8 : {false, true}) {
      InferenceOptions narrow = keeping(0.5, 0, at::kBFloat16);
      narrow.precision.int8 = int8;
      InferencePlan plan(model, narrow);
      const at::Tensor found = plan.logits(images);
      const at::Tensor expected =
          RoundingTwin(model, int8).logits(images, 0, kept_patches(narrow, 64));
      EXPECT_LT(relative(found, expected), int8 ? 0.02 : 0.008);
    }
  }
}

TEST(TokenReduction, RefusesWhatItCannotServe) {
  const auto plan = [](const VitConfig& config, const InferenceOptions& options) {
    return InferencePlan(filled(config), options);
  };
  EXPECT_ERROR(plan(small("hydra"), keeping(0, 1)), invalid_argument, "above 0, at most 1",
               "`keep_tokens`");
  EXPECT_ERROR(plan(small("hydra"), keeping(1.5, 1)), invalid_argument, "above 0, at most 1",
               "`keep_tokens`");
  EXPECT_ERROR(plan(small("hydra"), keeping(0.5, 2)), invalid_argument, "0 to 1", "`keep_layer`");
  EXPECT_ERROR(plan(small("hydra:0,aft:1,hydra:2"), keeping(0.5, 0)), invalid_argument, "layer 1",
               "`keep_tokens`");
  EXPECT_ERROR(plan(small("aft:0,hydra:1-2"), keeping(0.5, 0)), invalid_argument, "1 to 1",
               "`keep_layer`");
  EXPECT_ERROR(plan(small("window:0,hydra:1-2"), keeping(0.5, 0)), invalid_argument, "1 to 1",
               "`keep_layer`");
  EXPECT_ERROR(plan(small("hydra:0,window:1,hydra:2"), keeping(0.5, 0)), invalid_argument,
               "layer 1", "window", "`keep_tokens`");
  VitConfig with_rule = small("softmax");
  with_rule.rel_pos.resize(3);
  with_rule.rel_pos[2].rule = "rope";
  EXPECT_ERROR(plan(with_rule, keeping(0.5, 0)), invalid_argument,
               "layer 2 has the position rule 'rope'", "`keep_tokens`");
  VitConfig with_tables = small("softmax");
  with_tables.pos_embed = PosEmbed::layers;
  EXPECT_ERROR(plan(with_tables, keeping(0.5, 0)), invalid_argument,
               "layer 2 has a table of positions", "`keep_tokens`");
  VitConfig average = small("hydra");
  average.global_pool = Pooling::avg;
  EXPECT_ERROR(plan(average, keeping(0.5, 1)), invalid_argument, "class token", "`keep_tokens`");
  VitConfig shallow = small("hydra");
  shallow.depth = 1;
  shallow.attention.resize(1);
  InferenceOptions anywhere = options();
  anywhere.keep_tokens = 0.5;
  EXPECT_ERROR(plan(shallow, anywhere), invalid_argument, "two blocks", "`keep_tokens`");
  InferenceOptions automatic = options();
  automatic.keep_tokens = 0.5;
  EXPECT_EQ(plan(small("aft:0,hydra:1-2"), automatic).describe().keep_layer, 1);
  EXPECT_EQ(plan(small("hydra"), automatic).describe().keep_layer, 0);
  EXPECT_EQ(plan(small("hydra"), options()).describe().keep_layer, -1);
}

}  // namespace
}  // namespace hydrascope::model::inference
