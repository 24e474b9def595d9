// Runs a packed network on the CPU, a tile of tokens at a time through whole blocks:
//   mix -> proj -> + x -> LayerNorm -> fc1 -> GELU -> fc2 -> + x -> LayerNorm -> next layer's q, k, v
//   -> its mixing absorbs them (mixing.h)
// Only x and q (N x D) live between layers, and the mixing's memory: Hydra keeps a D-vector, linear
// attention one state per head, softmax and windows their keys and values. The MLP's 4 D activation
// and the 3 D of qkv never leave a core's cache. Threads meet once per layer if the mixing needs no
// more than its tiles, and once more to combine what the tiles absorbed (`Mixing::combine`): Hydra
// and linear attention add the sums of their tiles, and the prefix of windows waits for the sums
// over the keys of all other tiles. In the last block, with a class token pooled, only prefix tokens
// have a query, an output and an MLP, which is exact for every mechanism.
//
// A result depends on the tiles (their number follows the caches and, for small images, the
// threads) through the order of float32 sums over tokens only; it never depends on which thread ran
// a tile.
#pragma once

#include "kernels/device/thread_team.h"
#include "kernels/quantised_linear/quantised_linear.h"
#include "kernels/resize/resize.h"
#include "kernels/vector/aligned_buffer.h"
#include "model/inference/cpu/channel_ranges.h"
#include "model/inference/cpu/mixing.h"
#include "model/inference/cpu/observers.h"
#include "model/inference/cpu/packed_network.h"
#include "model/inference/cpu/stage_times.h"
#include "model/inference/cpu/tile_shape.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

namespace hydrascope::model::inference {

struct ExecutionOptions {
  /// Tiles follow the image's size alone, not the batch and the threads.
  bool fixed_tiles = false;
};

/// T, the storage of the network's rows, is float or BFloat16; of float, weights may be BFloat16.
template <class T>
class StreamingExecutor {
 public:
  /// Plans the mixings and allocates all memory for `batch` images of one size per call. `network` and
  /// `team` must outlive it.
  StreamingExecutor(const PackedNetwork& network, ImageGeometry geometry, std::int64_t batch,
                    kernels::device::ThreadTeam& team, const ExecutionOptions& options = {});
  StreamingExecutor(const StreamingExecutor&) = delete;
  StreamingExecutor& operator=(const StreamingExecutor&) = delete;
  ~StreamingExecutor() = default;

  /// Whether `run` takes so many images of rows x columns patches.
  [[nodiscard]] bool serves(std::int64_t images, std::int64_t rows,
                            std::int64_t columns) const noexcept {
    return images <= batch_ && rows == geometry_.grid.rows && columns == geometry_.grid.columns;
  }

  /// images (count, C, H, W), normalised, at most `batch` -> logits (count, num_classes). No
  /// allocation, no lock.
  void run(const float* images, std::int64_t count, float* logits, const Observers& observers);

 private:
  template <class Element>
  using Buffer = kernels::AlignedBuffer<Element>;

  /// The scratch of one thread.
  struct Scratch {
    T* rows;     ///< (tile, D)
    T* wide;     ///< (tile, widest activation)
    T* queries;  ///< (tile, query_stride), for tiles that are projected late
    kernels::quantised_linear::Rows quantised;  ///< a linear layer's input
    float* token;                               ///< (head_room), for the head
    float* overview;                            ///< a row of the picture that is reduced
    float* exit;                                ///< (exit_room)
    ChannelRanges ranges;                       ///< empty unless they are asked for
  };
  /// A layer's mixing, and its part of the memory.
  struct Layer {
    Mixing<T>* mixing;
    MixingManner manner;
    MixingRoom room;
    MixingMemory<T> memory;
  };

  // The memory, planned by the constructor (executor_memory.cpp).
  [[nodiscard]] Extent cut(std::int64_t widest, bool quantised, std::int64_t batch, int threads);
  void plan_mixings();
  void plan_overview();
  /// Returns the mixings' part of the scratch.
  typename MixingMemory<T>::Pieces plan_scratch(std::int64_t widest, bool quantised);

  // From pixels to the tokens that enter the first block (token_embedding.cpp).
  /// Reduces each of `count` pictures (C, H, W) to its overview's pixels.
  void make_overviews(const float* images, std::int64_t count);
  /// Writes the tokens of a tile: the prefix, and the patches' embeddings with their positions.
  void embed(const float* images, const Tile& t, Scratch& scratch);

  // A tile on its way through a block.
  void note_tokens(std::size_t layer, const Tile& t);
  void project(std::size_t layer, const Tile& t, int thread, StageClock& clock);
  void finish_block(std::size_t layer, const Tile& t, int thread, StageClock& clock);
  void add_positions(std::size_t layer, const Tile& t);
  /// Looks at the exit behind `layer`: `count` images lie there, image of number `images_[i]` in place i.
  /// Images that leave have their logits; the others move to the first places. Returns their number.
  std::int64_t leave(std::size_t layer, std::int64_t count, const ExitRecord& exits, float* logits,
                     StageTimes* times);
  void add_branch(const PackedLinear& last, const PackedNorm& of_branch,
                  const LinearInput<T>& input, std::int64_t rows, T* room, T* x) const;
  LinearInput<T> input(const PackedLinear& layer, const T* rows, std::int64_t count,
                       Scratch& scratch, std::size_t block, RangeSite site) const;
  /// A norm whose weight and bias the next linear layer has; y may be x.
  void norm(const T* x, std::int64_t rows, std::int64_t dim, T* y) const;
  /// A norm of rows (rows, D) with its own, in place.
  void norm(const PackedNorm& norm, std::int64_t rows, T* x) const;

  [[nodiscard]] Scratch& scratch_of(int thread) {
    return scratch_[static_cast<std::size_t>(thread)];
  }
  [[nodiscard]] std::int64_t row(const Tile& t) const { return t.image * num_tokens_ + t.first; }
  /// First row of a tile.
  T* tokens(const Tile& t) { return x_.data() + row(t) * dim_; }
  /// Whether a tile's queries, keys and values are made when the layer mixes them.
  [[nodiscard]] bool projects_late(std::size_t layer, const Tile& t) const {
    return tiles_hold_windows_ && t.first >= net_.num_prefix &&
           layers_[layer].manner.sees_windows_alone;
  }
  /// A tile's queries, keys and values in `layer`; all of its rows have a query.
  [[nodiscard]] MixingRows<T> rows_of(std::size_t layer, const Tile& t, const Scratch& of_thread);
  /// Tokens that have a query in `layer`.
  [[nodiscard]] std::int64_t queries_of(std::size_t layer) const {
    if (layer + 1 < net_.blocks.size() || net_.head.reads_patches()) return num_tokens_;
    return std::max<std::int64_t>(1, net_.num_prefix);
  }

  const PackedNetwork& net_;
  ImageGeometry geometry_;
  std::int64_t batch_;
  kernels::device::ThreadTeam& team_;
  std::int64_t dim_;
  std::int64_t num_tokens_;  ///< rows of an image in every buffer
  Extent extent_;
  bool tiles_hold_windows_ = false;  ///< whole windows; the prefix is a tile of its own
  std::vector<Layer> layers_;

  Buffer<T> x_;  ///< (B, N, D)
  /// (B, N, query_stride). One stride for all layers: a tile's next queries take the place of its
  /// used queries, while other tiles still need theirs.
  Buffer<T> q_;
  std::int64_t query_stride_;            ///< the query width of the widest layer
  Buffer<T> position_;                   ///< (patches and overview, D), in the plan's order
  kernels::resize::Taps overview_rows_;  ///< reduce a picture to its overview, if it has one
  kernels::resize::Taps overview_columns_;
  Buffer<float> overview_;  ///< (B, C, rows, columns), the overviews' pixels
  // Layers share these: each has the first bytes of every piece.
  Buffer<std::byte> tile_memory_;
  Buffer<std::byte> image_memory_;
  Buffer<std::byte>
      key_memory_[2];       ///< by parity of the layer: one is written while the other is read
  Buffer<T> kept_rows_[2];  ///< the same, for rows that are read while tiles are mixed
  Buffer<T> mixed_;         ///< (B, N, D), of mixings that mix all at once
  Buffer<std::byte> scratch_memory_;
  std::vector<Scratch> scratch_;
  std::vector<StageTimes> times_;      ///< one for each thread
  const TokenTrace* trace_ = nullptr;  ///< the current run's
  // At the exits, by the image's place.
  std::vector<std::int64_t> images_;  ///< its number in the batch
  Buffer<float> exit_logits_;         ///< (B, num_classes)
  Buffer<float> exit_features_[2];    ///< (B, D), of this exit and of the one before
  Buffer<float> exit_stops_;          ///< (B)
  std::vector<float> exit_scores_;
};

/// An executor of the network's storage.
using AnyExecutor = std::variant<std::unique_ptr<StreamingExecutor<float>>,
                                 std::unique_ptr<StreamingExecutor<kernels::BFloat16>>>;
AnyExecutor make_executor(const PackedNetwork& network, ImageGeometry geometry, std::int64_t batch,
                          kernels::device::ThreadTeam& team, const ExecutionOptions& options = {});

}  // namespace hydrascope::model::inference
