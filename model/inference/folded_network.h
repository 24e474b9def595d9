// A model's parameters with everything that is constant taken in, as plans of every device
// load them:
//   LayerNorm's weight and bias   -> the linear layer after it
//   LayerScale                    -> proj, fc2
//   softmax's 1/sqrt(d), exp's t  -> the query (and key) projection
//   Hedgehog's and T2R's networks -> the query and key projections
// Folding is done in float64.
#pragma once

#include "kernels/linear_attention/linear_attention.h"
#include "model/attention/fused_mixing.h"
#include "model/attention/positions/position_rule.h"
#include "model/inference/inference_options.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

namespace hydrascope::model::inference {

/// y = x weight^T + bias, float64.
struct Affine {
  at::Tensor weight;  ///< (out, in)
  at::Tensor bias;    ///< (out)
};

/// What a plan has for softmax over some of the keys, each with all that stands before it.
enum class SparseKernels {
  none,
  groups,  ///< for queries that share their keys, wherever they lie
  windows  ///< for patches that lie window after window
};

/// std::monostate: no kernels, the mixer runs as a module.
using FoldedMixing = std::variant<std::monostate, FusedSoftmax, FusedHydra,
                                  kernels::linear_attention::Shape, FusedWindow, FusedSparse>;

struct FoldedBlock {
  Affine query;      ///< D -> query width
  Affine key_value;  ///< D -> key width + D
  /// Read and folded when they are asked for: a large block need not be there in float64 at once.
  std::function<Affine()> proj;
  std::function<Affine()> fc1;
  std::function<Affine()> fc2;
  FoldedMixing mixing;
  at::Tensor local;  ///< of a mixing with kernels: its local term's weight, float32 (s, s, D)
};

/// A layer that `kernels` does not serve has none; without `rotations` neither has one whose position
/// rule turns queries and keys, without `with_mixing` none.
FoldedBlock fold_block(const EngineSource& source, std::int64_t layer,
                       SparseKernels kernels = SparseKernels::none, bool rotations = false,
                       bool with_mixing = true);

/// What becomes of the tokens after the last block.
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
  /// What is added to the input of each block, (patches and overview, D) or undefined.
  std::vector<at::Tensor> layer_positions;
  std::vector<TokenWeights> token_weights;         ///< one per layer
  std::vector<double> query_scales;                ///< one per layer, see TokenMixer::query_scale
  std::vector<PrefixWeighing> prefix_weighings;    ///< one per layer
  std::vector<std::optional<Rotation>> rotations;  ///< one per layer, see PositionRule::rotation
};
Embeddings make_embeddings(VisionTransformerImpl& model, std::int64_t rows, std::int64_t columns);

/// The one size of the model's windows, where patches may lie in their order: all layers have
/// kernels, none a convolution, and those of windows, of which there is at least one, agree.
std::optional<GridExtent> common_window(VisionTransformerImpl& model);

/// Puts what the mixer has of its own on a device, in that type: it is to run as a module.
void move_mixer(AttentionImpl& attention, c10::Device device, at::ScalarType type);

/// Error(invalid_argument) that names the first layer whose mechanism has no kernels, where a plan
/// has `kernels` and, with `rotations`, those of position rules that turn queries and keys.
void require_kernels_everywhere(VisionTransformerImpl& model, SparseKernels kernels,
                                bool rotations = false);

}  // namespace hydrascope::model::inference
