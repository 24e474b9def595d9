// Two small passes over rows of tokens on CUDA: the prefix tokens (class token, registers) are put
// in front of every image's patches, and the patches are averaged for models whose head wants their
// mean.
//
// Equations: prefix_tokens: x[b, t, :] = prefix[t, :] for t < P, with prefix = class token (and
//   registers) + their positions (Dosovitskiy et al. 2020, arXiv 2010.11929, equation 1: the same
//   for every image). mean_of_patches: y[b, :] = mean over P <= t < N of x[b, t, :] (timm's
//   global_pool="avg"; the prefix does not count).
// Tensors: see the fields; T = float, BFloat16 or Float16; rows of whole packs of 16 bytes, which divide
//   strides and addresses; y must not overlap x.
// Geometry: prefix_tokens: one block per row, 256 threads. mean_of_patches:
//   a block 8 packs of columns of one image (64 of 16 bits, 32 of float32), 512 threads as 64 token
//   lanes of 8 packs; their sums meet in shared memory (8 or 16 KiB).
// Memory: prefix: P D (4 + sizeof(T)) bytes per image, negligible. Mean: N D sizeof(T) bytes read;
//   ViT-B at 1088x1920 in bfloat16: 12.5 MB per image, one FLOP per element: bound by memory, at
//   few images by the D / 64 multiprocessors that work.
// Numerics: float32. A prefix value is rounded once. A mean is 64 sums of every 64th token, added
//   from the first to the last and divided, in float32: it errs like a sum of N / 64 + 64 values.
//   NaN or infinity in a column reaches the mean of that column of that image.
// Tolerance: a prefix exactly its rounding; a mean 1e-6 of values of order one, and a rounding.
// Deterministic: the order of a sum depends on N - P only.
// Preconditions: as above, mean_of_patches: tokens > num_prefix, else Error(internal). An empty
//   call (images, num_prefix or dim 0) launches nothing.
// Test: tests/kernels/token_rows/token_rows_cuda_test.cpp; twin: token_rows_reference.h beside it.
#pragma once

#include "kernels/device/geometry.h"
#include "kernels/device/stream.h"
#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::token_rows::cuda {

template <class T>
struct PrefixTokensParams {
  T* x;                   ///< (images, num_prefix or more tokens, dim): the first rows are written
  std::int64_t x_stride;  ///< elements between tokens
  std::int64_t image_stride;  ///< elements between images
  std::int64_t images;
  std::int64_t num_prefix;
  std::int64_t dim;
  const float* prefix;  ///< (num_prefix, dim), contiguous
};
template <class T>
void prefix_tokens(const PrefixTokensParams<T>& params, device::Stream stream);

template <class T>
struct MeanOfPatchesParams {
  const T* x;  ///< (images, tokens, dim)
  std::int64_t x_stride;
  std::int64_t image_stride;
  std::int64_t images;
  std::int64_t tokens;      ///< with the prefix
  std::int64_t num_prefix;  ///< leading tokens that the mean leaves out
  std::int64_t dim;
  float* y;  ///< (images, dim), rows `y_stride` apart
  std::int64_t y_stride;
};
template <class T>
void mean_of_patches(const MeanOfPatchesParams<T>& params, device::Stream stream);

// The layout of the kernels, as numbers that tests read without a GPU.

inline constexpr int kPrefixThreads = 256;
/// Half of a multiprocessor: with four loads each its threads keep 32 KiB on their way.
inline constexpr int kMeanThreads = 512;
/// Packs side by side: 128 bytes, a line of the cache. Narrow, so that one image of 768 columns is
/// the work of 12 (float32: 24) blocks: splitting the tokens too would need a workspace for a pass
/// that runs once per network.
inline constexpr int kPacksOfTile = 8;
inline constexpr int kTokenLanes = kMeanThreads / kPacksOfTile;

/// One block for each prefix row of an image.
constexpr device::Geometry prefix_geometry(std::int64_t images, std::int64_t num_prefix) {
  return {{images * num_prefix, 1, 1}, {kPrefixThreads, 1, 1}};
}

/// One block for each tile of columns of an image; `pack`: the columns of a thread.
constexpr device::Geometry mean_geometry(std::int64_t images, std::int64_t dim, int pack) {
  return {{images * device::ceil_div(dim, pack * kPacksOfTile), 1, 1}, {kMeanThreads, 1, 1}};
}

}  // namespace hydrascope::kernels::token_rows::cuda
