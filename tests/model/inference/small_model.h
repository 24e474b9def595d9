// A small model whose every parameter matters, and its modules' answer, for tests of the plan.
#pragma once

#include "model/inference/cpu/precision_choice.h"
#include "model/inference/inference_plan.h"
#include "model/inference/modules_engine.h"
#include "model/registry/mechanisms.h"
#include "tests/model/small_vit.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {

inline VitConfig small(const std::string& attention = "softmax") {
  return testing::small_vit({.edge = 64, .dim = 96, .classes = 11}, attention);
}

/// The configuration with a local term in the layers that can have one.
inline VitConfig with_local_terms(VitConfig config, const std::string& local) {
  for (AttentionSpec& spec : config.attention)
    if (spec.mechanism != "softmax" && spec.mechanism != "window") spec.options["local"] = local;
  return config;
}

/// The differences from one vision transformer to the next.
inline std::vector<std::function<void(VitConfig&)>> shapes_of_model() {
  return {[](VitConfig&) {},
          [](VitConfig& c) { c.distilled = true; },
          [](VitConfig& c) { c.reg_tokens = 4; },
          [](VitConfig& c) { c.layer_scale = true; },
          [](VitConfig& c) { c.qkv_bias = false; },
          [](VitConfig& c) { c.no_embed_class = true; },
          [](VitConfig& c) { c.global_pool = Pooling::avg; },
          [](VitConfig& c) {
            c.global_pool = Pooling::avg;
            c.fc_norm = true;
          },
          [](VitConfig& c) {
            c.global_pool = Pooling::avg;
            c.class_token = false;
          },
          [](VitConfig& c) { c.mlp_ratio = 2.5; },
          [](VitConfig& c) { c.num_heads = 6; },
          [](VitConfig& c) { c.layer_norm_eps = 1e-2; }};
}

/// Parts that the GPU's plan leaves to the modules.
inline std::vector<std::function<void(VitConfig&)>> shapes_of_cpu() {
  return {[](VitConfig& c) { c.act = Activation::quick_gelu; },
          [](VitConfig& c) { c.act = Activation::gelu_tanh; },
          [](VitConfig& c) {
            c.norm_pre = true;
            c.patch_bias = false;
          },
          [](VitConfig& c) { c.scale_attn = true; },
          [](VitConfig& c) {
            c.rms_norm = true;
            c.patch_norm = true;
            c.proj_bias = false;
          },
          [](VitConfig& c) {
            c.rms_norm = true;
            c.post_norm = true;
            c.scale_attn = true;
            c.global_pool = Pooling::map;
          },
          [](VitConfig& c) {
            c.patch_norm = true;
            c.global_pool = Pooling::avg;
            c.fc_norm = true;
          },
          [](VitConfig& c) { c.post_norm = true; },
          [](VitConfig& c) {
            c.post_norm = true;
            c.layer_scale = true;
          },
          [](VitConfig& c) { c.final_norm = false; },
          [](VitConfig& c) {
            c.final_norm = false;
            c.global_pool = Pooling::avg;
          },
          [](VitConfig& c) { c.global_pool = Pooling::map; },
          [](VitConfig& c) {
            c.global_pool = Pooling::map;
            c.class_token = false;
            c.act = Activation::gelu_tanh;
            c.pool_heads = 4;
            c.pool_prefix = true;
          }};
}

inline std::vector<std::string> mechanism_names() {
  std::vector<std::string> names;
  for (const MechanismEntry* entry : mechanisms()) names.emplace_back(entry->name);
  return names;
}

/// Every value of an option that changes what a mechanism's kernels compute, in all layers:
/// "hydra.phi_k=l1" and a configuration.
inline std::vector<std::pair<std::string, VitConfig>> fused_variants() {
  struct Option {
    const char* mechanism;
    const char* key;
    std::vector<const char*> values;
  };
  std::vector<std::pair<std::string, VitConfig>> variants;
  for (const Option& option : std::vector<Option>{
           {"hedgehog", "variant", {"exp", "softmax2", "softmax1", "exp_pos", "expdim"}},
           {"hedgehog", "share_qk", {"on", "off"}},
           {"hedgehog", "per_head", {"on", "off"}},
           {"hedgehog", "bias", {"on", "off"}},
           {"hedgehog", "width", {"48"}},
           {"t2r", "width", {"20"}},
           {"exp", "t", {"2"}},
           {"mla", "norm_scope", {"head"}},
           {"hydra", "scale", {"none", "linear", "patch", "sqrt"}},
           {"hydra", "phi_k", {"cosine", "l1", "mean", "tanh", "softmax_token"}},
           {"hydra", "feature_scale", {"on"}}}) {
    for (const char* value : option.values) {
      VitConfig config = small(option.mechanism);
      for (AttentionSpec& spec : config.attention) spec.options[option.key] = value;
      variants.emplace_back(std::string(option.mechanism) + "." + option.key + "=" + value, config);
    }
  }
  return variants;
}

/// Scores grow with the picture, the table of positions lies in tiles.
inline VitConfig sized_by_the_picture() {
  VitConfig config = small("softmax:0-1,window:2");
  for (AttentionSpec& spec : config.attention) {
    const bool window = spec.mechanism == "window";
    spec.options[window ? "prefix_rows" : "logit_scale"] = window ? "scaled" : "log";
  }
  config.pos_interp = PosInterp::tile;
  return config;
}

/// Weights far enough from their initialisation that every parameter matters.
inline VisionTransformer filled(const VitConfig& config) {
  VisionTransformer model = testing::random_vit(config, 3, 0.15, "feature_map");
  model->eval();
  for (at::Tensor& parameter : model->parameters()) parameter.set_requires_grad(false);
  return model;
}

inline at::Tensor module_logits(VisionTransformer& model, const at::Tensor& images) {
  const c10::InferenceMode inference;
  return model->forward(images);
}

inline InferenceOptions options(at::ScalarType dtype = at::kFloat, int threads = 2) {
  InferenceOptions chosen;
  chosen.precision.dtype = dtype;
  chosen.threads = threads;
  return chosen;
}

/// Runs `body()` with rows of both formats between products of narrow weights.
template <class Body>
void for_each_row_storage(Body body) {
  for (const kernels::Storage storage : {kernels::Storage::float32, kernels::Storage::bfloat16}) {
    SCOPED_TRACE(storage == kernels::Storage::float32 ? "rows of float32" : "rows of bfloat16");
    set_row_storage_for_test(storage);
    body();
  }
  set_row_storage_for_test(std::nullopt);
}

/// |a - b| / |b| over all logits.
inline double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

/// With products that are cut by outputs, as for a small image on many threads.
inline at::Tensor split_logits(const VisionTransformer& model, const at::Tensor& images,
                               InferenceOptions chosen) {
  chosen.threads = 3;
  InferencePlan plan(model, chosen);
  plan.prepare(images.size(0), images.size(2), images.size(3), /*splits=*/true);
  return plan.logits(images);
}

/// The inputs of the modules' blocks.
inline std::vector<at::Tensor> block_inputs_of(VisionTransformer& model, const at::Tensor& images) {
  std::vector<at::Tensor> inputs;
  ForwardOptions forward{Kernels::reference};
  forward.block_inputs = &inputs;
  const at::NoGradGuard no_grad;
  model->forward(images, forward);
  return inputs;
}

/// int8 against the modules, by all tokens that enter the last of three blocks and by the logits. Both
/// factors of a product are rounded by 0.6 % of their size (a step divided by the root of 12, 255 steps
/// for some five standard deviations), a product so by 0.8 %: with any seed tokens are 1.4 % away after one
/// block and 1.9 % after two. Logits are 22 numbers of two class tokens, whose distance scatters: of 272
/// the median was 0.023, and a tenth were above 1.4 times that. If such distances are log-normal, 0.08
/// is 4.7 standard deviations away.
inline void expect_int8(VisionTransformer model, const at::Tensor& images,
                        const InferenceOptions& chosen) {
  const std::vector<at::Tensor> inputs = block_inputs_of(model, images);
  const std::int64_t last = model->config().depth - 1;
  InferencePlan plan(model, chosen);
  at::Tensor logits;
  const at::Tensor tokens = plan.tokens(images, {last}, &logits).select(1, 0);
  EXPECT_LT(relative(tokens, inputs[static_cast<std::size_t>(last)]), 0.03);
  EXPECT_LT(relative(logits, module_logits(model, images)), 0.08);
}

/// With kernels everywhere, and as the modules are.
inline void expect_fused(VisionTransformer model, const at::Tensor& images) {
  const at::Tensor expected = module_logits(model, images);
  InferenceOptions chosen = options();
  chosen.kernels = Kernels::fused;
  for (const int threads : {1, 2, 5}) {
    chosen.threads = threads;
    chosen.deterministic = threads == 2;
    InferencePlan plan(model, chosen);
    EXPECT_EQ(plan.describe().kernels, "fused");
    const at::Tensor found = plan.logits(images);
    EXPECT_LT(relative(found, expected), 1e-5) << threads << " threads";
    EXPECT_TRUE(at::equal(plan.logits(images), found));
    if (chosen.deterministic) {
      EXPECT_TRUE(at::equal(split_logits(model, images, chosen), found));
    }
  }
  const at::Tensor calibration = at::randn({2, 3, images.size(2), images.size(3)});
  for_each_row_storage([&] {
    chosen = options(at::kBFloat16);
    EXPECT_LT(relative(InferencePlan(model, chosen).logits(images), expected), 3.5e-2);
    chosen.precision.int8 = true;
    chosen.calibration = calibration;
    expect_int8(model, images, chosen);
  });
}

/// With kernels for some layers.
inline void expect_fused_in_part(VisionTransformer model, const at::Tensor& images,
                                 double bound = 1e-5) {
  InferencePlan plan(model, options());
  EXPECT_EQ(plan.describe().kernels, "fused+modules");
  EXPECT_LT(relative(plan.logits(images), module_logits(model, images)), bound);
}

/// A fused plan shows what enters those blocks, and its logits stay as they are.
inline void expect_traces(VisionTransformer model, const at::Tensor& images,
                          const std::vector<std::int64_t>& layers) {
  const std::vector<at::Tensor> inputs = block_inputs_of(model, images);
  InferenceOptions tracing = options();
  tracing.trace_layers = layers;
  InferencePlan plan(model, tracing);
  const auto [logits, trace, features, exits] = plan.compute(images);
  EXPECT_EQ(plan.describe().kernels, "fused");
  EXPECT_TRUE(at::equal(logits, InferencePlan(model, options()).logits(images)));
  const EngineOutputs of_modules = ModulesEngine(model, tracing).compute(images);
  EXPECT_LT(relative(of_modules.tokens, trace), 1e-5);
  EXPECT_TRUE(at::equal(of_modules.logits, ModulesEngine(model, options()).logits(images)));
  InferencePlan split(model, tracing);
  split.prepare(images.size(0), images.size(2), images.size(3), /*splits=*/true);
  EXPECT_LT(relative(split.compute(images).tokens, trace), 1e-5);
  ASSERT_EQ(trace.size(1), std::ssize(layers));
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const at::Tensor found = trace.select(1, static_cast<std::int64_t>(i));
    const at::Tensor& expected = inputs[static_cast<std::size_t>(layers[i])];
    ASSERT_EQ(found.sizes(), expected.sizes());
    EXPECT_LT(relative(found, expected), 1e-5);
  }
}

/// A deterministic plan gives the same bits whatever the threads and the images beside one.
inline void expect_same_bits(const VisionTransformer& model, const at::Tensor& images, bool int8) {
  InferenceOptions chosen = options(int8 ? at::kBFloat16 : at::kFloat);
  chosen.precision.int8 = int8;
  chosen.deterministic = true;
  const at::Tensor expected = InferencePlan(model, chosen).logits(images);
  EXPECT_TRUE(at::equal(split_logits(model, images, chosen), expected));
  for (const int threads : {1, 3, 5}) {
    chosen.threads = threads;
    InferencePlan plan(model, chosen);
    EXPECT_TRUE(at::equal(plan.logits(images), expected));
    EXPECT_TRUE(at::equal(plan.logits(images.narrow(0, 1, 1)), expected.narrow(0, 1, 1)));
  }
}

}  // namespace hydrascope::model::inference
