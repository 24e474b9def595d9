// A model's parameters with everything that is constant taken in, as plans of every device
// load them:
//   LayerNorm's weight and bias   -> the linear layer after it
//   LayerScale                    -> proj, fc2
//   softmax's 1/sqrt(d), exp's t  -> the query (and key) projection
//   Hedgehog's and T2R's networks -> the query and key projections
// Folding is done in float64.
#pragma once

#include "model/attention/kernel_form.h"
#include "model/attention/positions/position_rule.h"
#include "model/inference/inference_options.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::model::inference {

/// y = x weight^T + bias, float64.
struct Affine {
  at::Tensor weight;  ///< (out, in)
  at::Tensor bias;    ///< (out)
};

struct FoldedBlock {
  Affine query;      ///< D -> query width
  Affine key_value;  ///< D -> key width + D
  /// Read and folded when they are asked for: a large block need not be there in float64 at once.
  std::function<Affine()> proj;
  std::function<Affine()> fc1;
  std::function<Affine()> fc2;
};

/// `form`: the kernels that queries and keys are projected for; null: the layer's module.
FoldedBlock fold_block(const EngineSource& source, std::int64_t layer, const KernelForm* form);

/// The way of the tokens after the last block.
struct FoldedHead {
  at::Tensor norm_weight;
  at::Tensor norm_bias;
  Affine classifier;
  Affine distilled;  ///< undefined tensors unless the model has a second head
};
FoldedHead fold_head(VisionTransformerImpl& model);
/// The patch convolution: rows (channel, y, x) -> D.
Affine fold_patch_embed(VisionTransformerImpl& model);

/// Embeddings of images of rows x columns patches, float32.
struct Embeddings {
  at::Tensor prefix;    ///< (num_prefix, D), positions added; undefined without prefix tokens
  at::Tensor position;  ///< (patches and overview, D)
  /// Tables that are added to the input of each block, (patches and overview, D) or undefined.
  std::vector<at::Tensor> layer_positions;
};
Embeddings make_embeddings(VisionTransformerImpl& model, std::int64_t rows, std::int64_t columns);

/// The one size of the model's windows, where patches may lie in their order: all layers have
/// kernels, and its layers of windows, at least one, agree.
std::optional<GridExtent> common_window(VisionTransformerImpl& model);

/// Puts what the mixer has of its own on a device, in that type: it is to run as a module.
void move_mixer(AttentionImpl& attention, c10::Device device, at::ScalarType type);

/// Error(invalid_argument) that names the first layer whose mechanism has no kernels: no form, or one
/// of which `lacking` says why a plan does not serve it; empty: it does.
void require_kernels_everywhere(
    VisionTransformerImpl& model,
    const std::function<std::string(std::int64_t layer, const KernelForm& form)>& lacking);

}  // namespace hydrascope::model::inference
