#include "model/inference/gpu/device_weights.h"

#include "kernels/error.h"
#include "kernels/hydra/hydra_cuda.h"
#include "kernels/linear_attention/linear_attention_cuda.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <variant>

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

/// Whether there are kernels of T for a mixing; else its module does it.
template <class T>
bool has_kernels(const FoldedMixing& mixing, std::int64_t dim) {
  namespace linear = kernels::linear_attention;
  if (std::holds_alternative<FusedHydra>(mixing)) return kernels::hydra::cuda::serves<T>(dim);
  const auto* shape = std::get_if<linear::Shape>(&mixing);
  return shape == nullptr || linear::cuda::serves<T>(*shape, {1, 1, 1, 0, 1, 1});
}

}  // namespace

DeviceWeights::DeviceWeights(const EngineSource& source, const InferenceOptions& options)
    : device(options.device),
      type(product_type(options.precision)),
      chosen_kernels(options.kernels),
      model(source.model) {
  const at::NoGradGuard no_grad;
  const VitConfig& config = model->config();
  if (chosen_kernels == Kernels::fused) require_kernels_everywhere(*model, SparseKernels::none);
  num_prefix = config.num_prefix_tokens();
  patch_embed = load(fold_patch_embed(*model), scalar_type());
  for (std::int64_t layer = 0; layer < config.depth; ++layer) {
    FoldedBlock folded = fold_block(source, layer);
    with_storage(type, [&]<class T>() {
      if (has_kernels<T>(folded.mixing, config.embed_dim)) return;
      if (chosen_kernels == Kernels::fused)
        throw Error(ErrorCode::invalid_argument,
                    "the GPU has no kernels for heads or rows of this size in this precision",
                    "layer " + std::to_string(layer), "`kernels` auto runs its module");
      folded = fold_block(source, layer, SparseKernels::none, false, /*with_mixing=*/false);
    });
    DeviceBlock block;
    block.qkv = load({at::cat({folded.query.weight, folded.key_value.weight}),
                      at::cat({folded.query.bias, folded.key_value.bias})},
                     scalar_type());
    block.query_width = folded.query.weight.size(0);
    block.proj = load(folded.proj(), scalar_type());
    block.fc1 = load(folded.fc1(), scalar_type());
    block.fc2 = load(folded.fc2(), scalar_type());
    block.mixing = folded.mixing;
    if (folded.local.defined()) block.local = folded.local.to(device);
    if (auto* hydra = std::get_if<FusedHydra>(&block.mixing)) {
      if (hydra->feature_scale.defined())
        hydra->feature_scale = hydra->feature_scale.to(device, at::kFloat).contiguous();
    } else if (std::holds_alternative<std::monostate>(block.mixing)) {
      move_mixer(model->block(layer).attention(), device, scalar_type());
    }
    blocks.push_back(std::move(block));
  }
  FoldedHead head = fold_head(*model);
  if (config.distilled) {
    // The mean of both heads' logits: each gives its half to the sum.
    for (Affine* each : {&head.classifier, &head.distilled}) {
      each->weight = each->weight * 0.5;
      each->bias = each->bias * 0.5;
    }
    distilled = load(head.distilled, at::kFloat);
  }
  classifier = load(head.classifier, at::kFloat);
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
  return std::ranges::any_of(blocks, [](const DeviceBlock& block) {
    return std::holds_alternative<FusedSoftmax>(block.mixing);
  });
}

std::string DeviceWeights::what_runs() const {
  const bool modules = std::ranges::any_of(blocks, [](const DeviceBlock& block) {
    return std::holds_alternative<std::monostate>(block.mixing);
  });
  return modules ? "fused+modules" : "fused";
}

}  // namespace hydrascope::model::inference
