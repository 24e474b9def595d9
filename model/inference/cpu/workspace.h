// The memory of one executor, planned ahead for a batch of images of one size: what lives between
// two layers, what the mechanisms keep, what each thread works in.
#pragma once

#include "kernels/quantised_linear/quantised_linear.h"
#include "kernels/resize/resize.h"
#include "kernels/softmax_attention/few_queries.h"
#include "kernels/softmax_attention/softmax_attention.h"
#include "kernels/vector/aligned_buffer.h"
#include "model/inference/cpu/observers.h"
#include "model/inference/cpu/packed_network.h"
#include "model/inference/cpu/streaming_executor.h"
#include "model/inference/cpu/tile_shape.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {

/// The tokens of an image that are alive, and how they are cut.
struct Extent {
  std::int64_t num_tokens = 0;
  Borders borders;  ///< of the tiles
  [[nodiscard]] std::int64_t num_tiles() const { return std::ssize(borders) - 1; }
  [[nodiscard]] std::int64_t most_rows() const {
    std::int64_t most = 0;
    for (std::size_t i = 1; i < borders.size(); ++i)
      most = std::max(most, borders[i] - borders[i - 1]);
    return most;
  }
  /// Tiles that hold the first `count` tokens.
  [[nodiscard]] std::int64_t tiles_before(std::int64_t count) const {
    return std::ranges::lower_bound(borders, count) - borders.begin();
  }
};

/// Rows first .. first + rows of image `image`.
struct Tile {
  std::int64_t image;
  std::int64_t index;
  std::int64_t first;
  std::int64_t rows;
};
/// Tiles of all images of a batch in order.
inline Tile tile_of(std::int64_t item, const Extent& extent) {
  const std::int64_t index = item % extent.num_tiles();
  const auto border = extent.borders.begin() + index;
  return {item / extent.num_tiles(), index, border[0], border[1] - border[0]};
}

/// Keys of one tile that all prefix rows are asked against together, of the picture or of its
/// overview.
struct KeyPart {
  std::int64_t tile;
  std::int64_t first;
  std::int64_t count;
  bool of_overview;
};

/// What one thread works in.
template <class T>
struct Scratch {
  T* rows;         ///< (tile, D)
  T* wide;         ///< (tile, widest activation)
  T* queries;      ///< (tile, query_stride), of tiles that are projected late
  void* mixing;    ///< the attention kernels'
  T* window_keys;  ///< of one window, packed
  T* window_values;
  void* group;                                ///< of group_mixing.h
  kernels::quantised_linear::Rows quantised;  ///< a linear layer's input
  float* token;                               ///< (2 D), for the head
  float* overview;                            ///< a row of the picture that is reduced
  StageTimes times;
  ChannelRanges ranges;  ///< empty unless they are asked for
};

/// T is float or BFloat16. (B, N, ...) buffers have room for all tokens of an image, however many
/// are alive.
template <class T>
class Workspace {
  template <class Element>
  using Buffer = kernels::AlignedBuffer<Element>;

 public:
  Workspace(const PackedNetwork& network, const ImageGeometry& geometry, std::int64_t batch,
            int threads, const ExecutionOptions& options);

  /// Whether tokens are dropped after this layer's attention.
  [[nodiscard]] bool reduces(std::size_t layer) const {
    return reduction && std::cmp_equal(layer, reduction->layer);
  }
  /// Tokens that have keys in `layer`.
  [[nodiscard]] const Extent& keys_of(std::size_t layer) const {
    return reduction && std::cmp_greater(layer, reduction->layer) ? kept : whole;
  }
  /// Tokens that leave `layer`.
  [[nodiscard]] const Extent& outputs_of(std::size_t layer) const {
    return reduction && std::cmp_greater_equal(layer, reduction->layer) ? kept : whole;
  }
  /// Whether keys and values are kept whole, not a tile at a time.
  [[nodiscard]] bool stores_keys(std::size_t layer) const {
    const PackedBlock& block = net_.blocks[layer];
    return reduces(layer) || block.has_windows() || block.has_groups() || block.local.size > 0 ||
           std::holds_alternative<ModuleLayer>(block.mixing);
  }
  /// Whether a tile's queries, keys and values are made when the layer mixes them, and never leave
  /// the core's cache: patches in windows that no tiles share want nothing of other patches.
  [[nodiscard]] bool projects_late(std::size_t layer, const Tile& t) const {
    return tiles_hold_windows_ && t.first >= net_.num_prefix &&
           net_.blocks[layer].local.size == 0 &&
           std::holds_alternative<WindowLayer>(net_.blocks[layer].mixing);
  }
  [[nodiscard]] kernels::softmax_attention::Shape softmax_shape(std::int64_t count) const {
    return {count, net_.num_heads, net_.embed_dim / net_.num_heads};
  }
  [[nodiscard]] kernels::softmax_attention::Shape softmax_shape(const Extent& extent) const {
    return softmax_shape(extent.num_tokens);
  }
  /// First row of a tile.
  T* tokens(const Tile& t) { return x.data() + row(t) * net_.embed_dim; }
  T* queries(const Tile& t) { return q.data() + row(t) * query_stride; }
  T* stored_keys(std::size_t layer, const Tile& t) {
    return stored_keys_values[stored_slot(layer)].data() +
           row(t) * net_.blocks[layer].key_value.out();
  }
  /// What parts of the keys give to the prefix rows of one image (few_queries.h).
  float* prefix_parts(std::int64_t image) {
    return prefix_sums.data() + static_cast<std::size_t>(image) * parts.size() * part_size;
  }
  /// What the patches of one image and head have of a pass that others follow, (N, d + 2); that of
  /// the next pass lies `group_part_stride` behind it. Null where there is one pass.
  float* group_parts(std::int64_t image, std::int64_t head) {
    if (group_sums.empty()) return nullptr;
    return group_sums.data() + (image * net_.num_heads + head) * num_tokens * group_width();
  }
  [[nodiscard]] std::int64_t group_part_stride() const {
    return most_passes > 1 ? std::ssize(group_sums) / (static_cast<std::int64_t>(most_passes) - 1)
                           : 0;
  }
  /// The softmax keys of one image.
  T* softmax_keys(std::size_t layer, std::int64_t image) {
    return keys[layer % 2].data() + static_cast<std::size_t>(image) * keys_stride;
  }
  T* softmax_values(std::size_t layer, std::int64_t image) {
    return values[layer % 2].data() + static_cast<std::size_t>(image) * values_stride;
  }

 private:
  const PackedNetwork& net_;
  bool reads_beside_tiles_;  ///< stored keys and values of one layer, while the next one's come

 public:
  std::int64_t num_tokens;  ///< rows of an image in every buffer
  std::optional<TokenReduction> reduction;
  Extent whole;
  Extent kept;

  kernels::resize::Taps overview_rows;  ///< how a picture is reduced, if it has an overview
  kernels::resize::Taps overview_columns;
  Buffer<float> overview;  ///< (B, C, rows, columns), what it is cut from
  Buffer<T> x;             ///< (B, N, D)
  /// (B, N, query_stride). One stride for all layers: a tile's next queries take the place of those
  /// it has just used, while other tiles still need theirs.
  Buffer<T> q;
  std::int64_t query_stride = 0;  ///< the widest layer's
  Buffer<T> position;             ///< (patches and overview, D), in the plan's order
  Buffer<float> hydra_sums;       ///< (B, tiles, D)
  Buffer<float> hydra_global;     ///< (B, D)
  Buffer<float> linear_sums;      ///< (B, tiles, most sums)
  std::size_t linear_sums_stride = 0;
  Buffer<std::byte> linear_state;  ///< (B, largest state)
  std::size_t linear_state_stride = 0;
  Buffer<T> keys[2];  ///< softmax's, by parity of the layer: the next is written while one is read
  Buffer<T> values[2];
  std::size_t keys_stride = 0;
  std::size_t values_stride = 0;
  /// (B, N, widest keys + D), where `stores_keys`. Those of windows and of local terms are read
  /// while tiles write the next layer's, hence two by parity of the layer.
  Buffer<T> stored_keys_values[2];
  std::vector<KeyPart> parts;  ///< of windows and groups
  std::size_t part_size = 0;
  Buffer<float> prefix_sums;  ///< (B, parts, part_size)
  std::int64_t most_group_queries = 0;
  std::int64_t most_group_keys = 0;
  std::size_t most_passes = 0;
  Buffer<float> group_sums;    ///< (passes but the last, B, H, N, d + 2)
  Buffer<T> mixed;             ///< (B, N, D), of modules and groups
  Buffer<float> scores;        ///< (B, H, N): where tokens are dropped
  Buffer<float> class_weight;  ///< (B, D): the class token's query, for Hydra's map
  Buffer<float> heat;          ///< (B, N)
  Buffer<std::int32_t> order;  ///< (B, N)
  std::vector<Scratch<T>> scratch;

 private:
  [[nodiscard]] std::size_t stored_slot(std::size_t layer) const {
    return reads_beside_tiles_ ? layer % 2 : 0;
  }
  [[nodiscard]] std::int64_t group_width() const { return net_.embed_dim / net_.num_heads + 2; }
  [[nodiscard]] std::int64_t row(const Tile& t) const { return t.image * num_tokens + t.first; }
  void plan_mixing(std::size_t images, std::size_t tiles);
  void plan_overview(const TokenGrid& grid, std::size_t images);
  void plan_prefix_parts(const ImageGeometry& geometry, std::size_t images);
  void plan_groups(const ImageGeometry& geometry, std::size_t images);
  void plan_scratch(std::int64_t widest, bool quantised, int threads);

  std::int64_t most_window_keys_ = 0;  ///< of a window and the prefix
  bool tiles_hold_windows_ = false;    ///< each some, whole; the prefix is a tile of its own

  Buffer<std::byte> scratch_memory_;
};

extern template class Workspace<float>;
extern template class Workspace<kernels::BFloat16>;

}  // namespace hydrascope::model::inference
