#include "model/inference/gpu/device_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace hydrascope::model::inference {

using kernels::linear::cuda::ProductType;

namespace {

ProductType product_type(const Precision& precision) {
  switch (precision.dtype) {
    case at::kBFloat16: return ProductType::bfloat16;
    case at::kHalf: return ProductType::float16;
    default: return precision.tf32 ? ProductType::tf32 : ProductType::float32;
  }
}

}  // namespace

DeviceWeights::DeviceWeights(const WeightTable& weights, const InferenceOptions& options)
    : device(options.device),
      type(product_type(options.precision)),
      chosen_kernels(options.kernels),
      parts(read_parts(weights)) {
  const at::NoGradGuard no_grad;
  const VitConfig& config = parts.config;
  const auto mixing_of = [&](std::int64_t layer, const KernelForm& form) {
    // Kernels know no rule that turns queries and keys.
    return parts.mixer(layer).position() != nullptr
               ? nullptr
               : device_mixing(form, type, device, config.num_heads, config.head_dim());
  };
  if (chosen_kernels == Kernels::fused)
    require_kernels_everywhere(
        parts, [&](std::int64_t layer, const KernelForm& form) -> std::string {
          if (mixing_of(layer, form)) return "";
          if (parts.mixer(layer).position() != nullptr)
            return "with the position rule '" + config.rel_pos_of(layer).rule + "' on a GPU";
          return "of this size in this precision on a GPU";
        });
  num_prefix = config.num_prefix_tokens();
  patch_embed = load(fold_patch_embed(weights), scalar_type());
  for (std::int64_t layer = 0; layer < config.depth; ++layer) {
    DeviceBlock block;
    const KernelForm* const form = parts.form(layer);
    if (form != nullptr) block.mixing = mixing_of(layer, *form);
    AttentionImpl& attention = *parts.attention[static_cast<std::size_t>(layer)];
    FoldedBlock folded = fold_block(weights, layer, attention, block.mixing ? form : nullptr);
    block.qkv = load({at::cat({folded.query.weight, folded.key_value.weight}),
                      at::cat({folded.query.bias, folded.key_value.bias})},
                     scalar_type());
    block.query_width = folded.query.weight.size(0);
    block.proj = load(folded.proj(), scalar_type());
    block.fc1 = load(folded.fc1(), scalar_type());
    block.fc2 = load(folded.fc2(), scalar_type());
    if (!block.mixing) move_mixer(attention, device, scalar_type());
    blocks.push_back(std::move(block));
  }
  FoldedHead head = fold_head(weights);
  if (config.distilled && config.num_classes > 0) {
    // The mean of both heads' logits: each gives its half to the sum.
    for (Affine* each : {&head.classifier, &head.distilled}) {
      each->weight = each->weight * 0.5;
      each->bias = each->bias * 0.5;
    }
    distilled = load(head.distilled, at::kFloat);
  }
  if (config.num_classes > 0) classifier = load(head.classifier, at::kFloat);
  norm_weight = head.norm_weight.to(at::kFloat).to(device).contiguous();
  norm_bias = head.norm_bias.to(at::kFloat).to(device).contiguous();
}

at::ScalarType DeviceWeights::scalar_type() const {
  switch (type) {
    case ProductType::bfloat16: return at::kBFloat16;
    case ProductType::float16: return at::kHalf;
    default: return at::kFloat;
  }
}

DeviceLinear DeviceWeights::load(const Affine& affine, at::ScalarType as) const {
  return {affine.weight.to(as).to(device).contiguous(), affine.bias.to(as).to(device).contiguous()};
}

bool DeviceWeights::has_softmax() const {
  return std::ranges::any_of(blocks, [grid = parts.config.training_grid()](const auto& block) {
    return block.mixing && block.mixing->softmax_scale(grid);
  });
}

std::string DeviceWeights::what_runs() const {
  const bool modules =
      std::ranges::any_of(blocks, [](const DeviceBlock& block) { return !block.mixing; });
  return modules ? "fused+modules" : "fused";
}

}  // namespace hydrascope::model::inference
