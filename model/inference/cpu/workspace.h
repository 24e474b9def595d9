// The memory of one executor, planned ahead for a batch of images of one size: the rows between two
// layers, the mechanisms' memory, and each thread's scratch.
#pragma once

#include "kernels/quantised_linear/quantised_linear.h"
#include "kernels/resize/resize.h"
#include "kernels/vector/aligned_buffer.h"
#include "model/inference/cpu/channel_ranges.h"
#include "model/inference/cpu/mixing.h"
#include "model/inference/cpu/packed_network.h"
#include "model/inference/cpu/stage_times.h"
#include "model/inference/cpu/tile_shape.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hydrascope::model::inference {

struct ExecutionOptions {
  /// Tiles follow the image's size alone, not the batch and the threads.
  bool fixed_tiles = false;
};

/// The scratch of one thread.
template <class T>
struct Scratch {
  T* rows;     ///< (tile, D)
  T* wide;     ///< (tile, widest activation)
  T* queries;  ///< (tile, query_stride), for tiles that are projected late
  kernels::quantised_linear::Rows quantised;  ///< a linear layer's input
  float* token;                               ///< (2 D), for the head
  float* overview;                            ///< a row of the picture that is reduced
  ChannelRanges ranges;                       ///< empty unless they are asked for
};

/// T is float or BFloat16.
template <class T>
class Workspace {
  template <class Element>
  using Buffer = kernels::AlignedBuffer<Element>;

 public:
  /// Plans the mixings of `geometry`, too.
  Workspace(const PackedNetwork& network, const ImageGeometry& geometry, std::int64_t batch,
            int threads, const ExecutionOptions& options);

  /// A layer's mixing, and its part of this memory.
  struct Layer {
    Mixing<T>* mixing;
    MixingManner manner;
    MixingRoom room;
    MixingMemory<T> memory;
  };
  [[nodiscard]] const Layer& layer(std::size_t index) const { return layers_[index]; }

  /// Whether a tile's queries, keys and values are made when the layer mixes them.
  [[nodiscard]] bool projects_late(std::size_t index, const Tile& t) const {
    return tiles_hold_windows_ && t.first >= net_.num_prefix &&
           layers_[index].manner.sees_windows_alone;
  }
  /// First row of a tile.
  T* tokens(const Tile& t) { return x.data() + row(t) * net_.embed_dim; }
  /// A tile's queries, keys and values in `layer`; all of its rows have a query.
  [[nodiscard]] MixingRows<T> rows(std::size_t index, const Tile& t, const Scratch<T>& of_thread) {
    const PackedBlock& block = net_.blocks[index];
    const bool late = projects_late(index, t);
    MixingRows<T> rows{t, t.rows};
    rows.queries = late ? of_thread.queries : q.data() + row(t) * query_stride;
    rows.query_stride = query_stride;
    rows.stride = block.key_value.out();
    rows.keys = late || layers_[index].manner.rows == MixingManner::Rows::passing
                    ? of_thread.wide
                    : layers_[index].memory.kept.keys + row(t) * rows.stride;
    rows.values = rows.keys + block.key_width(net_.embed_dim);
    return rows;
  }
  /// The output of a mixing that mixes all at once, for a tile.
  [[nodiscard]] const T* mixed(const Tile& t) const {
    return mixed_.data() + row(t) * net_.embed_dim;
  }

 private:
  const PackedNetwork& net_;

 public:
  std::int64_t num_tokens;  ///< rows of an image in every buffer
  Extent extent;

  kernels::resize::Taps overview_rows;  ///< reduce a picture to its overview, if it has one
  kernels::resize::Taps overview_columns;
  Buffer<float> overview;  ///< (B, C, rows, columns), the overviews' pixels
  Buffer<T> x;             ///< (B, N, D)
  /// (B, N, query_stride). One stride for all layers: a tile's next queries take the place of its
  /// used queries, while other tiles still need theirs.
  Buffer<T> q;
  std::int64_t query_stride = 0;  ///< the query width of the widest layer
  Buffer<T> position;             ///< (patches and overview, D), in the plan's order
  std::vector<Scratch<T>> scratch;
  std::vector<StageTimes> times;  ///< one for each thread

 private:
  [[nodiscard]] std::int64_t row(const Tile& t) const { return t.image * num_tokens + t.first; }
  [[nodiscard]] Extent cut(const ImageGeometry& geometry, std::int64_t widest, bool quantised,
                           std::int64_t batch, int threads);
  void plan_mixings(std::size_t images);
  void plan_overview(const TokenGrid& grid, std::size_t images);
  /// Returns the mixings' part of the scratch.
  typename MixingMemory<T>::Pieces plan_scratch(std::int64_t widest, bool quantised, int threads);

  bool tiles_hold_windows_ = false;  ///< whole windows; the prefix is a tile of its own
  std::vector<Layer> layers_;
  // Layers share these: each has the first bytes of every piece.
  Buffer<std::byte> tile_memory_;
  Buffer<std::byte> image_memory_;
  Buffer<std::byte>
      key_memory_[2];       ///< by parity of the layer: one is written while the other is read
  Buffer<T> kept_rows_[2];  ///< the same, for rows that are read while tiles are mixed
  Buffer<T> mixed_;         ///< (B, N, D)
  Buffer<std::byte> scratch_memory_;
};

extern template class Workspace<float>;
extern template class Workspace<kernels::BFloat16>;

}  // namespace hydrascope::model::inference
