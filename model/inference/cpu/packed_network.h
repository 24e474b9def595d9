// A vision transformer as the CPU plan runs it: the folded matrices of folded_network.h, packed for
// the micro-kernels; no LibTorch.
#pragma once

#include "kernels/gelu/sigmoid_gelu.h"
#include "kernels/vector/aligned_buffer.h"
#include "model/attention/token_grid.h"
#include "model/inference/cpu/mixing.h"
#include "model/inference/cpu/packed_linear.h"
#include "model/inference/cpu/rotation.h"
#include "model/inference/cpu/token_order.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace hydrascope::model::inference {

/// A norm's own weight and bias, where no linear layer takes them in.
struct PackedNorm {
  kernels::AlignedBuffer<float> weight;
  kernels::AlignedBuffer<float> bias;
  /// Whether there is no norm.
  [[nodiscard]] bool empty() const { return weight.empty(); }
};

struct PackedBlock {
  PackedLinear query;      ///< D -> query_width()
  PackedLinear key_value;  ///< D -> key_width() + D; reads the rows of query, quantised once
  PackedLinear proj;
  PackedLinear fc1;
  PackedLinear fc2;
  PackedNorm norm1;         ///< of proj's output, in place of the norm before query and key_value
  PackedNorm norm2;         ///< of fc2's output, in place of the norm before fc1
  bool has_kernels = true;  ///< else its mixing is a module
  [[nodiscard]] std::int64_t query_width() const { return query.out(); }
  [[nodiscard]] std::int64_t key_width(std::int64_t embed_dim) const {
    return key_value.out() - embed_dim;
  }
};

/// Attention pooling (FoldedPool), in float32 whatever the network's storage.
struct PackedPool {
  std::int64_t first = 0;  ///< the first token that is pooled
  PackedLinear score;      ///< D -> heads
  PackedLinear value;      ///< D -> D; rows of head h read that head's mean token
  PackedLinear proj;
  PackedLinear fc1;
  PackedLinear fc2;
};

/// Pooling, norm and classifiers after the last block.
struct PackedHead {
  bool average = false;            ///< mean of the patch tokens instead of the class token
  std::optional<PackedPool> pool;  ///< attention over the patch tokens instead of either
  bool norm_after_pool = false;    ///< timm's fc_norm
  PackedNorm norm;
  PackedLinear classifier;  ///< float32, whatever the network's storage
  PackedLinear distilled;   ///< the second token's; empty unless the model has one
  [[nodiscard]] bool reads_patches() const { return average || pool.has_value(); }
};

/// One block of the exits, its norms taken in (FoldedClassBlock), in float32 whatever the storage.
struct PackedClassBlock {
  PackedLinear query;  ///< D -> D
  std::vector<PackedLinear>
      keys;            ///< of each head, d -> D: its query as a row that tokens are asked by
  PackedLinear value;  ///< D -> D; rows of head h read that head's mean token
  PackedLinear proj;
  PackedLinear fc1;
  PackedLinear fc2;
};

/// The exits (model/class_branch.h, model/coarse_exit.h); no layers: the network has none, or nobody asks
/// for them.
struct PackedExits {
  std::vector<std::int64_t> layers;      ///< ascending
  bool coarse = false;                   ///< then nothing else is there
  std::vector<PackedClassBlock> blocks;  ///< for the layers behind the first exit
  PackedNorm norm;                       ///< before both:
  PackedLinear classifier;
  PackedLinear stop;  ///< D -> 1
};

struct PackedNetwork {
  kernels::Storage storage = kernels::Storage::float32;  ///< of the rows between products
  std::int64_t embed_dim = 0;
  std::int64_t hidden_dim = 0;
  bool gated_mlp = false;     ///< SwiGLU: fc1 gives a gate and, behind it, the gated values
  bool normed_mlp = false;    ///< a norm before fc2, which has its weight and bias
  bool normed_mixed = false;  ///< the same before proj
  std::optional<kernels::gelu::SigmoidForm> gelu;  ///< of MLPs in place of GELU by erf
  std::int64_t num_heads = 0;
  std::int64_t num_prefix = 0;
  std::int64_t patch_size = 0;
  std::int64_t in_chans = 0;
  std::int64_t num_classes = 0;
  float layer_norm_eps = 0;
  bool rms_norm = false;  ///< of all norms: they take no mean off
  /// The window size of every layer that has windows; patches lie window after window. Without it
  /// they lie in row-major order, as in the modules.
  std::optional<GridExtent> window;
  PackedLinear patch_embed;  ///< reads rows (channel, y, x)
  PackedNorm patch_norm;     ///< of its output, before positions join
  PackedNorm norm_pre;       ///< before the first block
  std::vector<PackedBlock> blocks;
  PackedHead head;
  PackedExits exits;

  /// Whether the blocks' linear layers are in 8 bits.
  [[nodiscard]] bool is_quantised() const {
    return !blocks.empty() && blocks.front().query.is_quantised();
  }
  [[nodiscard]] std::int64_t patch_dim() const { return in_chans * patch_size * patch_size; }
};

/// The parts of a network that depend on the image's size.
struct ImageGeometry {
  TokenGrid grid;
  kernels::AlignedBuffer<float> prefix;  ///< (num_prefix, D): tokens with their position added
  TokenOrder order;
  kernels::AlignedBuffer<float> position;  ///< (patches and overview, D), in that order
  /// A block at this size.
  struct Layer {
    AnyMixing mixing;
    /// A table that is added to the patches that enter the block, (patches and overview, D) in that
    /// order; may be empty.
    kernels::AlignedBuffer<float> position;
    RotationTable rotation;  ///< turns queries and keys
  };
  std::vector<Layer> layers;
  std::unique_ptr<ImageGeometry> coarse;  ///< of the coarse exits; without prefix and positions

  /// A grid of patches, and the number of its first one.
  struct Plane {
    std::int64_t first, rows, columns;
  };
  /// The plane that holds a patch: the picture or, behind it, its overview.
  [[nodiscard]] Plane plane_of(std::int64_t patch) const {
    if (patch < grid.num_patches()) return {0, grid.rows, grid.columns};
    return {grid.num_patches(), grid.overview_rows, grid.overview_columns};
  }
  /// visit(row, patch, count): rows row .. row + count behind token `first` are these patches of
  /// the picture or, numbered behind them, of the overview. A visit stays within one of the two.
  template <class Visit>
  void for_each_run(std::int64_t first, std::int64_t rows, Visit visit) const {
    std::int64_t token = std::max<std::int64_t>(0, first - grid.num_prefix);
    const std::int64_t end = first + rows - grid.num_prefix;
    if (token >= end) return;
    auto run = std::ranges::upper_bound(order.runs, token, {}, &TokenOrder::Run::token) - 1;
    for (; token < end; ++run) {
      const std::int64_t skipped = token - run->token;
      const std::int64_t count = std::min(run->count - skipped, end - token);
      visit(token + grid.num_prefix - first, run->patch + skipped, count);
      token += count;
    }
  }
};

/// The site of a geometry whose grid and order are there.
inline MixingSite site_of(const PackedNetwork& network, const ImageGeometry& geometry) {
  using kernels::softmax_attention::Products;
  const std::int64_t head_dim = network.embed_dim / network.num_heads;
  const bool in_bytes =
      network.is_quantised() && kernels::softmax_attention::bytes_are_faster(head_dim);
  return {geometry.grid,     geometry.order, network.window.has_value(),
          network.num_heads, head_dim,       in_bytes ? Products::bytes : Products::of_rows};
}

}  // namespace hydrascope::model::inference
