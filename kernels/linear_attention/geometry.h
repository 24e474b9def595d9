// The CUDA kernels of linear attention: the split of their work, the places of intermediate
// results, and the reasons; numbers only, so that tests ask without a GPU.
#pragma once

#include "kernels/device/geometry.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/vector/scalar_types.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::linear_attention::cuda {

/// Floats of S (B, H, F, d), z and M (B, H, F).
constexpr std::int64_t sums_floats(const Shape& shape, std::int64_t images) {
  return images * shape.num_heads * shape.features() * (shape.head_dim + 2);
}

/// A workspace in floats, and the begins of its parts: multiples of 256 bytes.
struct Workspace {
  std::int64_t run_stride;  ///< from one run's sums to the next (the first at 0, if several)
  std::int64_t gradient;    ///< dS, dz as sums_floats
  std::int64_t queries;     ///< the backward pass's values of each query
  std::int64_t floats;

  /// `query_values`: floats that are kept of each query of a head; 0 in the forward pass.
  constexpr Workspace(const Shape& shape, const Extent& extent, std::int64_t runs,
                      std::int64_t query_values) {
    const auto padded = [](std::int64_t count) { return device::ceil_div(count, 64) * 64; };
    run_stride = padded(sums_floats(shape, extent.images));
    gradient = runs > 1 ? runs * run_stride : 0;
    queries = gradient + (query_values > 0 ? run_stride : 0);
    floats = queries + padded(query_values * extent.images * shape.num_heads * extent.queries);
  }
  [[nodiscard]] constexpr std::size_t bytes() const {
    return static_cast<std::size_t>(floats) * sizeof(float);
  }
};

/// The runs of a row of S are added four columns a thread.
inline constexpr int kCombineThreads = 256;
constexpr std::int64_t combine_blocks(const Shape& shape) {  // of a head
  return device::ceil_div(shape.features() * (shape.head_dim / 4), kCombineThreads);
}
constexpr device::Geometry combine_geometry(const Shape& shape, std::int64_t images) {
  return {{images * combine_blocks(shape), shape.num_heads, 1}, {kCombineThreads, 1, 1}};
}

/// The kernels in float32 arithmetic.
namespace simt {

/// Products are made in tiles of 64 x 64 sums, 8 x 4 of them per thread: the three 16-byte reads of
/// shared memory for each 32 multiply-adds leave the arithmetic the bottleneck, and three blocks of
/// four warps fit a multiprocessor's registers. Operands come in steps of 32.
inline constexpr int kTile = 64;
inline constexpr int kStep = 32;
inline constexpr int kThreads = 128;

/// Tokens are cut into equal runs, whose sums are then added in order. The cut depends on the
/// number of tokens alone: an image's result must not change with the batch that it comes in.
struct Split {
  std::int64_t count;
  std::int64_t tokens;  ///< tokens of a run, a multiple of kStep; the last may be shorter
};
/// At least 256 tokens per run: one head's S (F = 128, d = 64) is 32 KB to write and to read again,
/// against 128 KB of keys and values of 256 tokens (float32), and the product takes longer than
/// both. 32 runs of 12 heads and two tiles of features are 768 blocks: batch 1 fills 132
/// multiprocessors from some 2000 tokens on.
inline constexpr std::int64_t kMaxRuns = 32;
inline constexpr std::int64_t kMinRun = 256;
constexpr Split split_tokens(std::int64_t tokens) {
  if (tokens <= 0) return {0, kStep};
  const std::int64_t wanted = std::min(kMaxRuns, device::ceil_div(tokens, kMinRun));
  const std::int64_t run =
      device::ceil_div(device::ceil_div(tokens, wanted), kStep) * std::int64_t{kStep};
  return {device::ceil_div(tokens, run), run};
}

constexpr std::int64_t tiles_of(std::int64_t count) { return device::ceil_div(count, kTile); }

/// Sums over tokens: a block has a run of tokens of a head, and 64 features x 64 columns of S.
constexpr device::Geometry state_geometry(const Shape& shape, std::int64_t images,
                                          const Split& split) {
  const std::int64_t tiles = tiles_of(shape.features()) * tiles_of(shape.head_dim);
  return {{images * split.count * tiles, shape.num_heads, 1}, {kThreads, 1, 1}};
}
/// A block has 64 tokens of a head and 64 columns of their rows.
constexpr device::Geometry read_out_geometry(const Shape& shape, std::int64_t images,
                                             std::int64_t tokens) {
  return {{images * tiles_of(tokens) * tiles_of(shape.head_dim), shape.num_heads, 1},
          {kThreads, 1, 1}};
}
/// A block has 64 tokens of a head and all elements of their rows.
constexpr device::Geometry row_geometry(const Shape& shape, std::int64_t images,
                                        std::int64_t tokens) {
  return {{images * tiles_of(tokens), shape.num_heads, 1}, {kThreads, 1, 1}};
}

/// Floats of each query that backward keeps: see simt_backward.cuh.
inline constexpr int kQueryValues = 5;
constexpr Workspace workspace(const Shape& shape, const Extent& extent, bool backward) {
  return Workspace(shape, extent, split_tokens(extent.tokens).count, backward ? kQueryValues : 0);
}

}  // namespace simt

/// Heads of 64 in 16 bits.
namespace tensor_core {

inline constexpr int kWarps = 4;
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int kWidth = 64;                     ///< w and d: the heads of ViT and DeiT
inline constexpr int kWarpRows = 16;                  ///< rows of the instruction's left operand
inline constexpr int kTileRows = kWarps * kWarpRows;  ///< tokens a block has at a time

/// Kinds of maps that kernels are instantiated for: exponents of both signs, the same with shifts
/// of each token, exponents of one sign, no exponents. A parameter of kernels names the map itself.
enum class Kind { pair, shifted_pair, single, plain };
constexpr Kind kind_of(Feature feature) {
  if (feature < Feature::exp) return Kind::plain;
  if (feature == Feature::exp) return Kind::single;
  return feature == Feature::exp_pair ? Kind::pair : Kind::shifted_pair;
}

constexpr std::int64_t tiles_of(std::int64_t rows) { return device::ceil_div(rows, kTileRows); }

/// The number of parts in which an image's tokens are summed. It never depends on the batch, so
/// that an image's result is the same alone and among others. Two blocks on each multiprocessor at
/// batch 1, but at least 4 tiles a part (64 KB of k and v), since every part writes 33 KB of sums.
constexpr std::int64_t splits_of(std::int64_t tokens, std::int64_t heads) {
  const std::int64_t wanted = device::ceil_div(2 * device::kMultiprocessors, heads);
  return std::max<std::int64_t>(1, std::min(wanted, tiles_of(tokens) / 4));
}

/// Tiles of rows that one block reads out, after it has loaded S once (32 KB against 16 KB per
/// tile): as many as leave three blocks for every multiprocessor, up to 8. Rows do not depend on
/// each other, so this may depend on the batch.
constexpr std::int64_t tiles_a_block(std::int64_t images, std::int64_t heads, std::int64_t rows) {
  const std::int64_t tiles = tiles_of(rows);
  return std::clamp<std::int64_t>(images * heads * tiles / (3 * device::kMultiprocessors), 1,
                                  std::clamp<std::int64_t>(tiles, 1, 8));
}

/// Grid of the kernels that sum over tokens.
constexpr device::Geometry state_geometry(std::int64_t images, std::int64_t heads,
                                          std::int64_t tokens) {
  return {{images * splits_of(tokens, heads), heads, 1}, {kThreads, 1, 1}};
}
/// Grid of the kernels whose rows are independent.
constexpr device::Geometry rows_geometry(std::int64_t images, std::int64_t heads,
                                         std::int64_t rows) {
  const std::int64_t tiles = tiles_a_block(images, heads, rows);
  return {{images * device::ceil_div(tiles_of(rows), tiles), heads, 1}, {kThreads, 1, 1}};
}

/// Floats of each query that the sums over queries read: a Term of tensor_core_query_sums.cuh.
inline constexpr int kQueryValues = 4;
constexpr Workspace workspace(const Shape& shape, const Extent& extent, bool backward) {
  return Workspace(shape, extent, splits_of(extent.tokens, shape.num_heads),
                   backward ? kQueryValues : 0);
}

// The calls themselves (tensor_core.cu), with checked parameters. Without images or tokens nothing
// is launched or written; without queries only the state is.

/// T: BFloat16 or Float16.
template <class T>
void forward(const ForwardParams<T>& params, device::Stream stream);
/// Every key has a query: queries = tokens.
void backward(const BackwardParams<BFloat16>& params, device::Stream stream);

}  // namespace tensor_core

template <class T>
constexpr Workspace workspace(const Shape& shape, const Extent& extent, bool backward) {
  return sizeof(T) == 2 ? tensor_core::workspace(shape, extent, backward)
                        : simt::workspace(shape, extent, backward);
}
}  // namespace hydrascope::kernels::linear_attention::cuda
