// A layer of the CPU plan mixes its tokens by one object, which is made for one size of the picture.
// The executor knows this interface alone. Each kind is a file of mixings/; a mechanism chooses one by
// its KernelForm (model/attention/kernel_form.h).
//
// A layer runs in three steps, and threads meet before and after the second one:
//   absorb    a tile's queries, keys and values, as soon as they are projected
//   combine   the sums of all tiles of an image
//   mix       a tile's queries -> its rows of the output
// The next layer absorbs a tile as soon as this layer has mixed it.
#pragma once

#include "kernels/device/thread_team.h"
#include "kernels/softmax_attention/softmax_attention.h"
#include "kernels/vector/scalar_types.h"
#include "model/attention/token_grid.h"
#include "model/inference/cpu/stage_times.h"
#include "model/inference/cpu/tile_shape.h"
#include "model/inference/cpu/token_order.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>

namespace hydrascope::model::inference {

/// One size of the picture, as mixings see it while they are made; references end then.
struct MixingSite {
  const TokenGrid& grid;
  const TokenOrder& order;
  bool in_windows = false;  ///< patches lie window after window instead of row after row
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  kernels::softmax_attention::Products products{};  ///< not of groups, nor of a prefix

  [[nodiscard]] std::int64_t dim() const { return num_heads * head_dim; }
  [[nodiscard]] kernels::softmax_attention::Shape softmax_shape(std::int64_t keys) const {
    return {keys, num_heads, head_dim, products};
  }
};

/// How a mixing takes part in a pass over the tiles.
struct MixingManner {
  /// The time for which rows given to `absorb` are kept, for all tokens of an image at once.
  enum class Rows { passing, until_combined, until_mixed };
  Rows rows = Rows::passing;
  /// `combine` mixes all tokens, and `mix` is not called.
  bool mixes_all_at_once = false;
  /// All tokens have a query, even if only prefix tokens go on.
  bool wants_all_queries = false;
  /// Prefix tokens are mixed behind all patches, and threads meet in between.
  bool prefix_last = false;
  /// Patches see their own window and the prefix alone. A tile of whole windows is then projected
  /// when it is mixed, so that its queries, keys and values never leave the core's cache.
  bool sees_windows_alone = false;
  /// Tiles begin at even tokens.
  bool even_tiles = false;
  /// `absorb` and `mix` may be called for some heads of a tile at a time.
  bool heads_apart = false;
};

/// Memory that a mixing needs, in bytes.
struct MixingRoom {
  std::size_t tile = 0;    ///< per tile: `absorb` writes it, `combine` reads it
  std::size_t image = 0;   ///< per image: from `combine` on, until all tiles are mixed
  std::size_t keys = 0;    ///< per image: from `absorb` on, until all tiles are mixed
  std::size_t thread = 0;  ///< per thread, within one call
  std::size_t video = 0;   ///< this layer's alone, from call to call: of earlier frames
};

/// Rows of some neighbouring tokens of an image.
template <class T>
struct MixingRows {
  Tile tile;
  std::int64_t queried = 0;  ///< the first rows, which have a query
  T* queries = nullptr;      ///< the tile's first token's
  std::int64_t query_stride = 0;
  T* keys = nullptr;  ///< the tile's first token's
  T* values = nullptr;
  std::int64_t stride = 0;  ///< elements from row to row of keys and values
  /// The heads that are absorbed or mixed, all unless `heads_apart`; rows begin with head 0.
  std::int64_t first_head = 0;
  std::int64_t num_heads = 0;
};

/// The memory of one layer, as large as its MixingRoom says.
template <class T>
struct MixingMemory {
  struct Pieces {
    std::byte* first = nullptr;
    std::size_t stride = 0;
    template <class Element>
    [[nodiscard]] Element* at(std::int64_t index) const {
      return reinterpret_cast<Element*>(first + static_cast<std::size_t>(index) * stride);
    }
    /// The same pieces without their first bytes.
    [[nodiscard]] Pieces behind(std::size_t bytes) const { return {first + bytes, stride}; }
  };
  Pieces tiles;  ///< the tiles of an image follow each other
  std::int64_t tiles_per_image = 0;
  Pieces images;
  Pieces keys;
  Pieces threads;
  std::byte* video = nullptr;
  /// The rows of the first image, in a layer that keeps rows.
  MixingRows<T> kept;
  T* mixed = nullptr;           ///< (B, N, D), if `combine` mixes
  std::int64_t num_tokens = 0;  ///< N, also of `kept`
  std::int64_t dim = 0;         ///< D

  [[nodiscard]] MixingRows<T> rows_of(std::int64_t image) const {
    MixingRows<T> rows = kept;
    rows.tile.image = image;
    rows.queries += image * num_tokens * rows.query_stride;
    rows.keys += image * num_tokens * rows.stride;
    rows.values += image * num_tokens * rows.stride;
    return rows;
  }
};

/// Between two passes over the tiles, when one thread calls and the team waits.
struct Meeting {
  std::int64_t images = 0;
  bool patches_have_queries = true;  ///< else prefix tokens alone
  kernels::device::ThreadTeam& team;
  StageTimes* times = nullptr;  ///< one per thread, or null
  bool goes_on = false;         ///< the one image is the next frame of the last call's video

  /// work(item, thread) of every item, on all threads.
  template <class Work>
  void run(std::int64_t count, const Work& work) const {
    const auto timed = [&](std::int64_t item, int thread) {
      StageClock clock(times == nullptr ? nullptr : times + thread);
      work(item, thread);
      clock.lap(Stage::attention);
    };
    team.run(count, timed);
  }
};

/// T is float or BFloat16. `plan` comes first; all others are const and may run on several threads.
template <class T>
class Mixing {
 public:
  Mixing() = default;
  Mixing(const Mixing&) = delete;
  Mixing& operator=(const Mixing&) = delete;
  virtual ~Mixing() = default;

  [[nodiscard]] virtual MixingManner manner() const { return {}; }
  /// Called once, with the tiles of every later call.
  virtual MixingRoom plan(const Extent& extent) = 0;
  /// May change the queries.
  virtual void absorb(const MixingRows<T>& /*rows*/, const MixingMemory<T>& /*memory*/,
                      int /*thread*/) const {}
  virtual void combine(const Meeting& /*meeting*/, const MixingMemory<T>& /*memory*/) const {}
  /// rows.tile.rows queries -> mixed, as many rows of D. `prefix_last`: also called without
  /// queries.
  virtual void mix(const MixingRows<T>& /*rows*/, const MixingMemory<T>& /*memory*/, int /*thread*/,
                   T* /*mixed*/) const {}
};

/// A mixing of the plan's storage, never null.
using AnyMixing =
    std::variant<std::unique_ptr<Mixing<float>>, std::unique_ptr<Mixing<kernels::BFloat16>>>;

/// A `Kind` for that storage.
template <template <class> class Kind, class... Arguments>
AnyMixing make_mixing(kernels::Storage storage, Arguments&&... arguments) {
  if (storage == kernels::Storage::float32)
    return std::make_unique<Kind<float>>(std::forward<Arguments>(arguments)...);
  return std::make_unique<Kind<kernels::BFloat16>>(std::forward<Arguments>(arguments)...);
}

/// Pieces of a room start on cache lines of their own.
constexpr std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace hydrascope::model::inference
