// A model's matrices with everything that is constant taken in, as plans of every device
// load them:
//   a norm's weight and bias      -> the linear layer after it
//   LayerScale                    -> proj, fc2; with post_norm the norms behind them
//   softmax's 1/sqrt(d), exp's t  -> the query (and key) projection
//   Hedgehog's and T2R's networks -> the query and key projections
// Folding is done in float64.
#pragma once

#include "model/attention/attention.h"
#include "model/attention/kernel_form.h"
#include "model/weight_table.h"

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

/// A norm's weight and bias (zeros for RMSNorm), float64.
struct FoldedNorm {
  at::Tensor weight;
  at::Tensor bias;
};
/// The norm whose tensors' names begin with `name` and a dot.
FoldedNorm fold_norm(const WeightTable& weights, const std::string& name);

struct FoldedBlock {
  Affine query;      ///< D -> query width
  Affine key_value;  ///< D -> key width + D
  /// Read and folded on demand: a large block need not be there in float64 at once.
  std::function<Affine()> proj;
  std::function<Affine()> fc1;
  std::function<Affine()> fc2;
  std::optional<FoldedNorm> norm1;  ///< with post_norm, of proj's output
  std::optional<FoldedNorm> norm2;  ///< of fc2's
};

/// `attention`: the layer's module, whose mixer is filled. `form`: the kernels that queries and keys
/// are projected for; null: the module. The table must outlive the block.
FoldedBlock fold_block(const WeightTable& weights, std::int64_t layer, AttentionImpl& attention,
                       const KernelForm* form);

/// Attention pooling of one query, whose scores and values are linear in the tokens:
///   s_jh = score_h . x_j;   y = proj(sum_j softmax_j(s_jh) x_j of each head h);   y + mlp(norm(y))
/// A constant of all tokens of a head is left out of s, because softmax does not see it.
struct FoldedPool {
  Affine score;  ///< (H, D), scaled; without a bias
  Affine value;  ///< (D, D): rows of head h read that head's mean token
  Affine proj;
  Affine fc1;  ///< with the norm taken in
  Affine fc2;
};

/// Norm, pooling and classifiers after the last block.
struct FoldedHead {
  std::optional<FoldedNorm> norm;
  std::optional<FoldedPool> pool;
  Affine classifier;
  Affine distilled;  ///< the second head; undefined tensors if there is none
};
FoldedHead fold_head(const WeightTable& weights);

/// One block of the exits. Scores of head h are (key_h(query_h(y))) . y_j, y normalised without weight
/// and bias; constants of all tokens are left out.
struct FoldedClassBlock {
  Affine query;              ///< (D, D), scaled
  std::vector<Affine> keys;  ///< of each head, (D, d)
  Affine value;              ///< (D, D)
  Affine proj;
  Affine fc1;
  Affine fc2;
};
struct FoldedExits {
  std::vector<FoldedClassBlock> blocks;  ///< for the layers behind the first exit
  FoldedNorm norm;
  Affine classifier;
  Affine stop;
};
/// The model has exits.
FoldedExits fold_exits(const WeightTable& weights);
/// The patch convolution: rows (channel, y, x) -> D.
Affine fold_patch_embed(const WeightTable& weights);

}  // namespace hydrascope::model::inference
