// A small teacher and students of it, for tests of conversions.
#pragma once

#include "model/training/distillation/teacher.h"
#include "tests/model/small_vit.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <string>

namespace hydrascope::model::training {

inline VitConfig small_config(const std::string& attention = "softmax",
                              const std::vector<std::string>& options = {}) {
  VitConfig config = testing::small_vit({}, attention);
  for (const std::string& option : options) apply_attention_option(option, config.attention);
  return config;
}

/// A tower without classes.
inline VitConfig small_tower(const std::string& attention = "softmax",
                             Pooling pooling = Pooling::token) {
  VitConfig config = small_config(attention);
  config.num_classes = 0;
  config.global_pool = pooling;
  return config;
}

/// Weights far enough from their initialisation that attention is far from uniform.
inline VisionTransformer random_model(const VitConfig& config) {
  return testing::random_vit(config, 7, 0.2);
}

/// `teacher`'s weights; what a mechanism adds starts as it starts.
inline VisionTransformer student_of(VisionTransformerImpl& teacher, const VitConfig& config) {
  at::manual_seed(8);
  VisionTransformer student(config);
  const at::NoGradGuard no_grad;
  auto values = teacher.named_parameters();
  for (const auto& item : student->named_parameters()) {
    if (const at::Tensor* value = values.find(item.key())) item.value().copy_(*value);
  }
  return student;
}

inline at::Tensor random_images(std::int64_t count, std::uint64_t seed = 1) {
  at::manual_seed(seed);
  return at::randn({count, 3, 32, 32});
}

/// A layer's attention on its input.
inline AttentionTrace trace_attention(VisionTransformerImpl& model, std::int64_t layer,
                                      const at::Tensor& tokens, const TokenGrid& grid) {
  BlockImpl& block = model.block(layer);
  return block.attention().trace(block.normalise(tokens), grid, Kernels::automatic);
}

inline at::Tensor parameter(VisionTransformerImpl& model, const std::string& name) {
  return *model.named_parameters().find(name);
}

}  // namespace hydrascope::model::training
