// Hydra attention on a GPU, all images and tokens at once, forward (Bolya et al. 2022, arXiv
// 2209.07484, equation 8, with the deviations that hydra.h names: epsilon, token weights, feature
// scale). Used by the GPU plan and by the operators for the mechanisms hydra.h's Norm covers.
//   c_b = sum_t w_t (k_t / r(k_t)) * v_t      g_b = feature_scale * c_b
//   y_i = (q_i / r(q_i)) * g_b
//
// Tensors: rows contiguous, of whole packs of 16 bytes (`serves`: D <= 1536, float32 1024), with
//   strides and addresses that 16 bytes divide. y may be q; nothing else may overlap. `global`,
//   `sum` are written for every image, for an image without tokens with the empty sum.
// Kernels: hydra.cuh, in two launches.
// Traffic: 4 N D s bytes (2 N D s by project, 2 N D s by gate) and N D / 8 bytes of partial sums, in
//   L2 (50 MB and 0.8 MB per image for D = 768, N = 8161, bfloat16: by estimate 11.7 us at an H200's
//   4.3 TB/s); about 8 N D FLOPs, so bound by memory.
// Numerics: float32; 1/r is formed once per row and multiplied; one rounding to T when stored. Sums
//   over tokens in an order that N and D alone fix: not the batch, not the GPU; no
//   floating-point atomics, so every run gives the same bits. NaN in k reaches its image's c, in v
//   its feature, in q its row.
// Tolerance: 4e-6 of the sum of magnitudes (chains of at most 60 additions), and a rounding to T.
// Preconditions: a workspace, else Error(internal); 0 <= queries <= tokens < 2^29, `serves` and
//   aligned rows, else Error(invalid_argument). No image or no feature: nothing is launched.
// Test: tests/kernels/hydra/hydra_cuda_test.cpp; twin: forward_reference of hydra_reference.h beside
//   it.
#pragma once

#include "kernels/device/geometry.h"
#include "kernels/device/rows.h"
#include "kernels/device/stream.h"
#include "kernels/hydra/hydra.h"
#include "kernels/vector/scalar_types.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::hydra::cuda {

using device::Rows;

// The split of the kernels' work: plain numbers that a test without a GPU asks for.

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / 32;

/// Packs of 16 bytes of a row of T per lane, for which kernels are compiled. Few sizes, because
/// each is compiled for every architecture, and a lane's packs beyond the row cost a predicate, not
/// a transfer: D = 384 in bfloat16 has two rows in flight by three packs as it would have by two.
/// Eight packs serve ViT-L in float32.
template <class T>
inline constexpr std::array<int, 4> kPacks{1, 3, 4, 6};
template <>
inline constexpr std::array<int, 5> kPacks<float>{1, 3, 4, 6, 8};

/// The fewest packs that hold a row; 0 if no size does or the row does not consist of packs.
template <class T>
constexpr int packs_of(std::int64_t dim) {
  constexpr std::int64_t kWidth = 16 / sizeof(T);
  if (dim % kWidth != 0) return 0;
  for (const int packs : kPacks<T>)
    if (dim <= 32 * packs * kWidth) return packs;
  return 0;
}

/// Rows of two tensors that a warp asks for before it waits: 48 registers a lane at most, beside
/// the sums of a row. Two blocks per multiprocessor then have 48 to 96 KB on their way. The latency
/// of an H200's memory, 0.8 us (an estimate), is hidden from 4.3 TB/s * 0.8 us / 132 = 26 KB on.
constexpr int rows_in_flight(int packs) { return packs == 1 ? 4 : packs <= 3 ? 2 : 1; }
/// Rows of one tensor that a warp loads ahead.
constexpr int gate_rows_in_flight(int packs) { return packs <= 3 ? 4 : 2; }

/// Tokens that one block sums. 32 give each warp two passes at D = 768, and 8161 tokens (1088 x
/// 1920 pixels) 256 blocks, two on each of an H200's 132 multiprocessors: one picture is enough to
/// fill it. Partial sums then have 1/32 of the bytes of k and v in bfloat16, and lie in L2. Images
/// of more tokens have longer shares, so that partial sums stay below a megabyte per image at D =
/// 768. A function of the tokens alone: an image's sum must depend neither on its batch nor on the
/// GPU.
inline constexpr std::int64_t kShare = 32;
inline constexpr std::int64_t kMaxShares = 256;
constexpr std::int64_t project_share(std::int64_t tokens) {
  return kShare * std::max<std::int64_t>(1, device::ceil_div(tokens, kShare * kMaxShares));
}
/// Blocks per image; without tokens one block, which writes the empty sum.
constexpr std::int64_t project_splits(std::int64_t tokens) {
  return std::max<std::int64_t>(1, device::ceil_div(tokens, project_share(tokens)));
}
/// The splits are added by a tree of two levels, of at most 16 sums each. Estimates, not measured:
/// one block alone would take 8 us to read 256 sums of 768 features from L2, two in a row 16 each
/// 1 us.
inline constexpr std::int64_t kGroup = 16;
constexpr std::int64_t project_groups(std::int64_t tokens) {
  return device::ceil_div(project_splits(tokens), kGroup);
}

/// Rows of one block of gate.
inline constexpr std::int64_t kRowsOfBlock = 32;

constexpr device::Geometry project_geometry(std::int64_t images, std::int64_t tokens) {
  return {{images * project_splits(tokens)}, {kThreads}};
}
constexpr device::Geometry rows_geometry(std::int64_t images, std::int64_t rows) {
  return {{images * device::ceil_div(rows, kRowsOfBlock)}, {kThreads}};
}

/// The workspace: counters (zero between calls), partial sums (B, splits, D).
struct WorkspaceLayout {
  std::int64_t counters_of_image;  ///< one per group, one for the groups
  std::size_t partial;             ///< offset in bytes
  std::size_t bytes;
};
constexpr WorkspaceLayout workspace_layout(std::int64_t images, std::int64_t tokens,
                                           std::int64_t dim) {
  const auto aligned = [](std::int64_t bytes) {
    return static_cast<std::size_t>(device::ceil_div(bytes, 256) * 256);
  };
  WorkspaceLayout layout{};
  layout.counters_of_image = project_groups(tokens) + 1;
  layout.partial = aligned(images * layout.counters_of_image * 4);
  layout.bytes = layout.partial + aligned(images * project_splits(tokens) * dim * 4);
  return layout;
}

/// Whether there are kernels for rows of `dim` values of T.
template <class T>
constexpr bool serves(std::int64_t dim) {
  return packs_of<T>(dim) > 0;
}

struct Shape {
  std::int64_t images;
  std::int64_t tokens;   ///< N, of k and v
  std::int64_t queries;  ///< leading tokens that have a query, at most `tokens`
  std::int64_t dim;
  Kernel kernel;
  TokenWeights weights;  ///< w of tokens in c
};

/// Bytes that `forward` works in, 256-byte aligned. The first workspace_zero_bytes of them must be
/// zero before the first call; each call returns them to zero for the next call of this shape.
/// Another shape needs them zeroed anew: its counters may lie among this shape's sums.
std::size_t workspace_bytes(const Shape& shape);
std::size_t workspace_zero_bytes(const Shape& shape);

template <class T>
struct ForwardParams {
  Shape shape;
  Rows<const T> q;
  Rows<const T> k;
  Rows<const T> v;
  const float* feature_scale;  ///< (D) or null
  float* global;               ///< (B, D): g = feature_scale * c
  Rows<T> y;
  void* workspace;
  float* sum = nullptr;  ///< (B, D) or null: c, which gradients need
};
/// T: float, BFloat16 or Float16.
template <class T>
void forward(const ForwardParams<T>& params, device::Stream stream);

}  // namespace hydrascope::kernels::hydra::cuda
