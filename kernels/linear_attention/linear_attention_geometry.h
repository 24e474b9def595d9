// How the general kernels of linear attention cut their work, where intermediate results lie, and
// why; numbers only, so that tests ask without a GPU.
#pragma once

#include "kernels/device/geometry.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/linear_attention/linear_attention_cuda.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::linear_attention::cuda::simt {

/// Products are made in tiles of 64 x 64 sums, 8 x 4 of them per thread: the three 16-byte reads of
/// shared memory for each 32 multiply-adds leave the arithmetic the bottleneck, and three blocks of
/// four warps fit a multiprocessor's registers. Operands come in steps of 32.
inline constexpr int kTile = 64;
inline constexpr int kStep = 32;
inline constexpr int kThreads = 128;

/// Tokens are cut into equal runs, whose sums are then added in order. The cut depends on nothing
/// but their number: an image's result must not change with the batch that it comes in.
struct Split {
  std::int64_t count;
  std::int64_t tokens;  ///< of a run, a multiple of kStep; the last may be shorter
};
/// At least 256 tokens per run: one head's S (F = 128, d = 64) is 32 KB to write and to read again,
/// against 128 KB of keys and values that 256 tokens read (float32), and the product takes longer
/// than either. 32 runs of 12 heads and two tiles of features are 768 blocks: batch 1 fills 132
/// multiprocessors from some 2000 tokens on. Combining is one warp per row, one lane per run.
inline constexpr std::int64_t kMostRuns = 32;
inline constexpr std::int64_t kLeastRun = 256;
constexpr Split split_tokens(std::int64_t tokens) {
  if (tokens <= 0) return {0, kStep};
  const std::int64_t wanted = std::min(kMostRuns, device::ceil_div(tokens, kLeastRun));
  const std::int64_t run =
      device::ceil_div(device::ceil_div(tokens, wanted), kStep) * std::int64_t{kStep};
  return {device::ceil_div(tokens, run), run};
}

constexpr std::int64_t tiles_of(std::int64_t count) { return device::ceil_div(count, kTile); }

/// Sums over tokens: a block is a run of tokens of a head and 64 features x 64 columns of them.
constexpr device::Geometry state_geometry(const Shape& shape, std::int64_t images,
                                          const Split& split) {
  const std::int64_t tiles = tiles_of(shape.features()) * tiles_of(shape.head_dim);
  return {{images * split.count * tiles, shape.num_heads, 1}, {kThreads, 1, 1}};
}
/// One warp per row of S.
constexpr device::Geometry combine_geometry(const Shape& shape, std::int64_t images) {
  const std::int64_t rows = images * shape.num_heads * shape.features();
  return {{device::ceil_div(rows, kThreads / 32), 1, 1}, {kThreads, 1, 1}};
}
/// A block is 64 tokens of a head and 64 columns of theirs.
constexpr device::Geometry read_out_geometry(const Shape& shape, std::int64_t images,
                                             std::int64_t tokens) {
  return {{images * tiles_of(tokens) * tiles_of(shape.head_dim), shape.num_heads, 1},
          {kThreads, 1, 1}};
}
/// A block is 64 tokens of a head with all elements of their rows.
constexpr device::Geometry row_geometry(const Shape& shape, std::int64_t images,
                                        std::int64_t tokens) {
  return {{images * tiles_of(tokens), shape.num_heads, 1}, {kThreads, 1, 1}};
}

/// Floats of S (B, H, F, d), z and M (B, H, F).
constexpr std::int64_t sums_floats(const Shape& shape, std::int64_t images) {
  return images * shape.num_heads * shape.features() * (shape.head_dim + 2);
}
/// Parts of a workspace begin at multiples of 64 floats.
constexpr std::int64_t padded(std::int64_t floats) { return device::ceil_div(floats, 64) * 64; }

/// What backward keeps of each query: see simt_backward.cuh.
inline constexpr int kQueryValues = 5;

/// Floats of the workspace, and where its parts begin.
struct Workspace {
  std::int64_t runs = 0;  ///< sums of each run, `run_stride` apart; used where there are several
  std::int64_t run_stride = 0;
  std::int64_t gradient = 0;  ///< dS, dz as sums_floats
  std::int64_t queries = 0;   ///< kQueryValues planes of (B, H, queries)
  std::int64_t floats = 0;
};
constexpr Workspace workspace(const Shape& shape, const Extent& extent, bool backward) {
  const std::int64_t runs = split_tokens(extent.tokens).count;
  Workspace all;
  all.run_stride = padded(sums_floats(shape, extent.images));
  all.gradient = runs > 1 ? runs * all.run_stride : 0;
  all.queries = all.gradient + (backward ? all.run_stride : 0);
  all.floats =
      all.queries +
      (backward ? padded(kQueryValues * extent.images * shape.num_heads * extent.queries) : 0);
  return all;
}

}  // namespace hydrascope::kernels::linear_attention::cuda::simt
