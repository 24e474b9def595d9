// A vision transformer as the CPU plan runs it: what folded_network.h has folded, packed for the
// micro-kernels; no LibTorch.
#pragma once

#include "kernels/hydra/hydra.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/vector/aligned_buffer.h"
#include "model/attention/token_grid.h"
#include "model/inference/cpu/grouped_keys.h"
#include "model/inference/cpu/packed_linear.h"
#include "model/inference/cpu/rotation.h"
#include "model/inference/cpu/token_order.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

namespace hydrascope::model::inference {

struct SoftmaxLayer {};

struct HydraLayer {
  kernels::hydra::Kernel kernel;
  kernels::AlignedBuffer<float> feature_scale;  ///< (D) or empty
  /// Where what a WindowLayer gives is added: queries are kept as it reads them, divided by sqrt(d),
  /// and this is their kernel.
  std::optional<kernels::hydra::Kernel> beside_window;
};

struct LinearLayer {
  kernels::linear_attention::Shape shape;
};

/// Softmax within the windows of the network's token order, prefix tokens over everything.
struct WindowLayer {};

/// Softmax over some of the keys, those of ImageGeometry::grouped; prefix tokens over everything. It
/// runs between two passes over the tokens.
struct GroupLayer {};

/// A mechanism without kernels of its own: its module runs between two passes over the tokens.
struct ModuleLayer {
  /// Mixes the tokens of `count` images, patches in row-major order, in the network's storage:
  /// queries (count, N, D), rows `query_stride` elements apart, keys and values (count, N, 2 D) ->
  /// mixed (count, N, D).
  std::function<void(std::int64_t count, const TokenGrid& grid, void* queries,
                     std::int64_t query_stride, void* keys_values, void* mixed)>
      mix;
};

using MixingLayer =
    std::variant<SoftmaxLayer, HydraLayer, LinearLayer, WindowLayer, GroupLayer, ModuleLayer>;

/// A convolution of the values, added to what the mixing gives (kernels/local_convolution).
struct LocalTerm {
  std::int64_t size = 0;                 ///< 0: there is none
  kernels::AlignedBuffer<float> weight;  ///< (size, size, D)
};

struct PackedBlock {
  PackedLinear query;      ///< D -> query_width()
  PackedLinear key_value;  ///< D -> key_width() + D; reads what query reads, quantised once
  PackedLinear proj;
  PackedLinear fc1;
  PackedLinear fc2;
  MixingLayer mixing;
  LocalTerm local;
  bool has_table = false;  ///< of ImageGeometry::layer_positions
  bool turns = false;      ///< queries and keys, by ImageGeometry::rotations

  [[nodiscard]] bool has_windows() const {
    const auto* hydra = std::get_if<HydraLayer>(&mixing);
    return std::holds_alternative<WindowLayer>(mixing) ||
           (hydra != nullptr && hydra->beside_window);
  }
  [[nodiscard]] bool has_groups() const { return std::holds_alternative<GroupLayer>(mixing); }
  [[nodiscard]] std::int64_t query_width() const { return query.out(); }
  [[nodiscard]] std::int64_t key_width(std::int64_t embed_dim) const {
    return key_value.out() - embed_dim;
  }
};

/// What becomes of the tokens after the last block.
struct PackedHead {
  bool average = false;          ///< mean of the patch tokens instead of the class token
  bool norm_after_pool = false;  ///< timm's fc_norm
  kernels::AlignedBuffer<float> norm_weight;
  kernels::AlignedBuffer<float> norm_bias;
  PackedLinear classifier;  ///< float32, whatever the network's storage
  PackedLinear distilled;   ///< of the second token; empty unless the model has one
};

struct PackedNetwork {
  kernels::Storage storage = kernels::Storage::float32;
  std::int64_t embed_dim = 0;
  std::int64_t hidden_dim = 0;
  bool gated_mlp = false;   ///< SwiGLU: fc1 gives a gate and, behind it, what it lets through
  bool normed_mlp = false;  ///< a LayerNorm before fc2, which has its weight and bias
  std::int64_t num_heads = 0;
  std::int64_t num_prefix = 0;
  std::int64_t patch_size = 0;
  std::int64_t in_chans = 0;
  std::int64_t num_classes = 0;
  float layer_norm_eps = 0;
  /// Of every layer that has windows; patches lie in that order. Without one they lie in row-major order, which
  /// is that of modules.
  std::optional<GridExtent> window;
  PackedLinear patch_embed;  ///< of rows (channel, y, x)
  std::vector<PackedBlock> blocks;
  PackedHead head;

  [[nodiscard]] bool has_local_terms() const {
    return std::ranges::any_of(blocks, [](const PackedBlock& b) { return b.local.size > 0; });
  }
  [[nodiscard]] bool has_groups() const {
    return std::ranges::any_of(blocks, [](const PackedBlock& b) { return b.has_groups(); });
  }
  [[nodiscard]] std::int64_t patch_dim() const { return in_chans * patch_size * patch_size; }
};

/// What depends on the image's size.
struct ImageGeometry {
  TokenGrid grid;
  kernels::AlignedBuffer<float> prefix;  ///< (num_prefix, D): tokens with their position added
  TokenOrder order;
  kernels::AlignedBuffer<float> position;  ///< (patches and overview, D), in that order
  /// What is added to the patches that enter each block, in that order; empty: nothing.
  std::vector<kernels::AlignedBuffer<float>> layer_positions;
  /// Weights of a token's key in the sums of mechanisms without a denominator, one per layer.
  struct TokenWeights {
    float prefix = 1;
    float patch = 1;
  };
  std::vector<TokenWeights> token_weights;
  std::vector<float> query_scales;  ///< what a layer's queries are multiplied by
  /// See model::PrefixWeighing: (H) each or empty, one of them per layer.
  struct PrefixWeights {
    std::vector<float> factor;
    std::vector<float> overview;
  };
  std::vector<PrefixWeights> prefix_weights;
  std::vector<GroupedKeys> grouped;      ///< one per layer, empty where it has no groups
  std::vector<RotationTable> rotations;  ///< one per layer

  /// A grid of patches, and the number of its first one.
  struct Plane {
    std::int64_t first, rows, columns;
  };
  /// That of the picture or, behind it, that of its overview.
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

}  // namespace hydrascope::model::inference
