// Small vision transformers, as configurations and with weights that all matter.
#pragma once

#include "model/registry/attention_spec.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

namespace hydrascope::testing {

struct VitSizes {
  std::int64_t edge = 32;  ///< of the square picture, in patches of 8 pixels
  std::int64_t dim = 24;
  std::int64_t depth = 3;
  std::int64_t heads = 3;
  std::int64_t classes = 5;
};
/// Without `attention` nothing is said of it: softmax everywhere, whatever the depth becomes.
inline model::VitConfig small_vit(const VitSizes& sizes, const std::string& attention = "") {
  model::VitConfig config;
  config.arch = "small";
  config.img_height = config.img_width = sizes.edge;
  config.patch_size = 8;
  config.embed_dim = sizes.dim;
  config.depth = sizes.depth;
  config.num_heads = sizes.heads;
  config.num_classes = sizes.classes;
  if (attention.empty()) return config;
  config.attention.resize(static_cast<std::size_t>(sizes.depth));
  model::apply_attention_spec(attention, config.attention);
  return config;
}

/// Weights `spread` away from zero, or one where they scale; those with `kept` in their name a third
/// of that away from where they begin.
inline model::VisionTransformer random_vit(const model::VitConfig& config, std::uint64_t seed,
                                           double spread, const std::string& kept = "") {
  at::manual_seed(seed);
  model::VisionTransformer model(config);
  const at::NoGradGuard no_grad;
  for (const auto& item : model->named_parameters()) {
    at::Tensor value = item.value();
    const bool scale = value.dim() == 1 && item.key().find("weight") != std::string::npos;
    if (!kept.empty() && item.key().find(kept) != std::string::npos) {
      value.add_(spread / 3 * at::randn_like(value));
    } else {
      value.copy_((scale ? 1.0 : 0.0) + spread * at::randn_like(value));
    }
  }
  return model;
}

}  // namespace hydrascope::testing
