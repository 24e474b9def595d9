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
// A small image on many threads has no tile for each of them, and each small tile would read all weights.
// Its products are cut by outputs, too (product_cut.h), and threads meet behind each of them: qkv, absorb,
// mix, proj, fc1, fc2. The few rows of the last block are always cut so. Several threads cut the prefix of
// windows so in the blocks that keep tiles, if it shares no tile with a patch (`splits_prefix`): it is
// mixed behind all tiles, and all threads would wait for the one that takes it (`run_prefix`).
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
#include "model/inference/cpu/product_cut.h"
#include "model/inference/cpu/stage_times.h"
#include "model/inference/cpu/tile_shape.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace hydrascope::model::inference {

struct ExecutionOptions {
  /// Tiles follow the image's size alone, not the batch and the threads.
  bool fixed_tiles = false;
  bool takes_images = true;  ///< else tokens: the coarse part of another executor
  /// Whether the products of all layers are cut by outputs; else whichever is sooner.
  std::optional<bool> splits = {};
  /// The same of a prefix that waits for the patches; where all products are cut, it is, too.
  std::optional<bool> splits_prefix = {};
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
    std::int64_t head_groups = 1;  ///< in which a tile is absorbed and mixed
  };
  /// The products of a layer that are cut by outputs.
  struct Cuts {
    ProductCut qkv;    ///< keys and values, and behind them the queries if all tokens have one
    ProductCut query;  ///< else the queries
    ProductCut proj;
    ProductCut fc1;
    ProductCut fc2;
    ProductCut rows;  ///< of the activations
  };
  /// Some rows and outputs of a product. x and q have rows for all tokens, other buffers for tokens with a
  /// query alone.
  struct Part {
    std::int64_t row;
    std::int64_t apart;  ///< rows from one of the part to the next
    std::int64_t live_row;
    std::int64_t live_apart;
    std::int64_t rows;
    ProductCut::Part outputs;
  };

  // The memory, planned by the constructor (executor_memory.cpp).
  [[nodiscard]] Extent cut(std::int64_t widest, bool quantised, std::int64_t batch, int threads);
  void plan_splits(std::int64_t widest, bool quantised, const ExecutionOptions& options);
  [[nodiscard]] static bool uses_amx(bool quantised);
  /// Whether the threads have done products that are cut by outputs sooner than those tiles.
  [[nodiscard]] bool is_sooner_split(const Extent& tiles) const;
  /// The same of the prefix alone, which the threads wait for behind the other tiles.
  [[nodiscard]] bool is_prefix_sooner_split() const;
  void plan_mixings();
  void plan_overview();
  /// Returns the mixings' part of the scratch.
  typename MixingMemory<T>::Pieces plan_scratch(std::int64_t widest, bool quantised);

  // From pixels to the tokens that enter the first block (token_embedding.cpp).
  /// Reduces each of `count` pictures (C, H, W) to its overview's pixels.
  void make_overviews(const float* images, std::int64_t count);
  /// Writes the tokens of a tile: the prefix, and the patches' embeddings with their positions. Without
  /// norms also some outputs alone.
  void embed(const float* images, const Tile& t, Scratch& scratch,
             const kernels::linear::Outputs& outputs = {});

  // A tile on its way through a block.
  void note_tokens(std::size_t layer, const Tile& t);
  void project(std::size_t layer, const Tile& t, int thread, StageClock& clock);
  /// Turns and absorbs the tile's rows, `group` of the layer's head groups.
  void absorb(std::size_t layer, MixingRows<T> rows, int thread, StageClock& clock);
  /// The tile's rows of the output, of a group of heads.
  void mix(std::size_t layer, const Tile& t, std::int64_t group, int thread, T* mixed);
  void finish_block(std::size_t layer, const Tile& t, int thread, StageClock& clock);
  void add_positions(std::size_t layer, const Tile& t);
  /// Makes queries, keys and values of all tokens of `count` images in `layer`.
  void enter(std::size_t layer, std::int64_t count, StageTimes* times);
  /// Runs blocks `first` to `end` on the `count` images whose tokens have entered `first`. Returns the
  /// number of images that have not left at an exit.
  std::int64_t run_blocks(std::size_t first, std::size_t end, std::int64_t count, float* logits,
                          const ExitRecord* exits, const Observers& observers, StageTimes* times);
  void run_prefix(std::size_t layer, std::int64_t count, bool goes_on, StageTimes* times);
  /// The answers (count, num_classes) of the exit behind `layer` to the images in the first `count` places.
  void look_by_branch(std::size_t layer, std::int64_t count, StageTimes* times);
  void look_coarsely(std::size_t layer, std::int64_t count, StageTimes* times);
  /// The steps between fc1 and fc2, unless fc1's epilogue is all of them: rows in place.
  void activate(std::int64_t rows, T* hidden) const;
  // A layer whose products are cut by outputs (split_layers.cpp). The first `count` images are there.
  void cut_products(std::int64_t images);
  void start_split(const float* images, std::int64_t count, StageTimes* times);
  /// Queries, keys and values of the first `live` tokens of each image.
  void project_split(std::size_t layer, std::int64_t count, std::int64_t live, StageTimes* times);
  /// The rest of the block for the first `live` tokens, whose mixed rows are there.
  void finish_split(std::size_t layer, std::int64_t count, std::int64_t live, StageTimes* times);
  /// y += of_branch(branch), or y = last(input) + y without a norm, of a part.
  void add_split(const PackedLinear& last, const PackedNorm& of_branch, const LinearInput<T>& input,
                 const Part& part);
  void join_branch(const PackedNorm& of_branch, const ProductCut& rows, std::int64_t live,
                   Stage stage, StageTimes* times);
  /// work(part, scratch) of all parts of a product of the first `live` tokens of each image.
  template <class Work>
  void run_parts(const ProductCut& cut, std::int64_t live, Stage stage, StageTimes* times,
                 const Work& work);
  /// The number of products, of which `cut` is one: all live tokens at once, or one of each image.
  [[nodiscard]] std::int64_t sets_of(std::int64_t live) const {
    return live == num_tokens_ ? 1 : live;
  }
  [[nodiscard]] Part part_of(const ProductCut& cut, std::int64_t item, std::int64_t live) const;
  /// Whether the products of all tokens with a query are cut by outputs,
  [[nodiscard]] bool is_split(std::size_t layer) const {
    return splits_all_ || (splits_last_ && layer + 1 == net_.blocks.size());
  }
  /// or else of the prefix alone, for which all threads would wait.
  [[nodiscard]] bool splits_prefix(std::size_t layer) const {
    return splits_prefix_ && !is_split(layer) && layers_[layer].manner.prefix_last;
  }

  /// Logits of the first `count` images, with `in_places` each to the row of its number in `images_`.
  void answer(std::int64_t count, bool in_places, float* logits, StageTimes* times);
  /// Looks at the exit behind `layer`: `count` images lie there, image of number `images_[i]` in place i.
  /// Images that leave have their logits; the others move to the first places. Returns their number.
  std::int64_t leave(std::size_t layer, std::int64_t count, const ExitRecord& exits, float* logits,
                     StageTimes* times);
  void add_branch(const PackedLinear& last, const PackedNorm& of_branch,
                  const LinearInput<T>& input, std::int64_t rows, T* room, T* x) const;
  LinearInput<T> input(const PackedLinear& layer, const T* rows, std::int64_t stride,
                       std::int64_t count, Scratch& scratch, std::size_t block,
                       RangeSite site) const;
  LinearInput<T> input(const PackedLinear& layer, const T* rows, std::int64_t count,
                       Scratch& scratch, std::size_t block, RangeSite site) const {
    return input(layer, rows, layer.in(), count, scratch, block, site);
  }
  /// A norm whose weight and bias the next linear layer has; rows of x `stride` apart. y may be x.
  void norm(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t dim, T* y) const;
  void norm(const T* x, std::int64_t rows, std::int64_t dim, T* y) const {
    norm(x, dim, rows, dim, y);
  }
  /// A norm of rows (rows, D) with its own, in place.
  void norm(const PackedNorm& norm, std::int64_t rows, T* x) const;
  /// x += y, `count` values, added in float.
  template <class Addend>
  static void add(const Addend* y, std::int64_t count, T* x) {
    for (std::int64_t i = 0; i < count; ++i)
      x[i] = T(static_cast<float>(x[i]) + static_cast<float>(y[i]));
  }

  /// work(tile, group, thread) for tiles first .. end of each image and each of `groups`, from the last
  /// tile on: window_borders counts on that.
  template <class Work>
  void run_tiles(std::int64_t images, std::int64_t first, std::int64_t end, std::int64_t groups,
                 const Work& work) {
    const std::int64_t of_image = (end - first) * groups;
    team_.run(images * of_image, [&](std::int64_t item, int thread) {
      const std::int64_t index = end - 1 - item % of_image / groups;
      work(tile_of(item / of_image * extent_.num_tiles() + index, extent_), item % groups, thread);
    });
  }
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
  /// Among the first `live` tokens, those whose queries are made in `layer`.
  [[nodiscard]] std::int64_t queried_of(std::size_t layer, std::int64_t live) const {
    return layers_[layer].manner.wants_all_queries ? live : std::min(live, queries_of(layer));
  }
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
  bool splits_all_ = false;          ///< the products of all layers are cut by outputs
  bool splits_last_ = false;         ///< of the last layer, where few tokens have a query
  bool splits_prefix_ = false;       ///< of the prefix, where it is mixed last
  std::int64_t part_unit_ = 0;       ///< rows of a part are a multiple
  std::vector<Cuts> cuts_;           ///< of each layer
  std::int64_t cut_images_ = 0;      ///< for so many images
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
  Buffer<std::byte> video_memory_;  ///< a piece for each layer, from call to call
  // Layers that are split have these, rows of tokens with a query.
  Buffer<T> split_mixed_;   ///< (rows, D)
  Buffer<T> split_hidden_;  ///< (rows, width of fc1)
  Buffer<T> split_branch_;  ///< (rows, D), of networks with norms behind the branches
  Buffer<float> pooled_;    ///< (B, 2, D), the rows that classifiers read
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
  std::unique_ptr<StreamingExecutor> coarse_;  ///< of coarse exits, on the same team
  std::vector<std::int64_t> places_;           ///< with them: the row of each patch
};

/// An executor of the network's storage.
using AnyExecutor = std::variant<std::unique_ptr<StreamingExecutor<float>>,
                                 std::unique_ptr<StreamingExecutor<kernels::BFloat16>>>;
AnyExecutor make_executor(const PackedNetwork& network, ImageGeometry geometry, std::int64_t batch,
                          kernels::device::ThreadTeam& team, const ExecutionOptions& options = {});

}  // namespace hydrascope::model::inference
