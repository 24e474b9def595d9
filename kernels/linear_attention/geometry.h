// The CUDA kernels of linear attention: the split of their work, the places of partial sums, and the
// reasons; numbers only, so that tests ask without a GPU.
#pragma once

#include "kernels/device/geometry.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/linear_attention/linear_attention_cuda.h"

#include <algorithm>
#include <cstdint>

namespace hydrascope::kernels::linear_attention::cuda {

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

/// Floats of S (B, H, F, d), z and M (B, H, F).
constexpr std::int64_t sums_floats(const Shape& shape, std::int64_t images) {
  return images * shape.num_heads * shape.features() * (shape.head_dim + 2);
}
/// Floats from one part's sums to the next in the workspace: a multiple of 256 bytes.
constexpr std::int64_t part_stride(const Shape& shape, std::int64_t images) {
  return device::ceil_div(sums_floats(shape, images), 64) * 64;
}
/// Floats of the workspace: the sums of all parts, if there are several.
constexpr std::int64_t workspace_floats(const Shape& shape, const Extent& extent) {
  const std::int64_t parts = splits_of(extent.tokens, shape.num_heads);
  return parts > 1 ? parts * part_stride(shape, extent.images) : 0;
}

/// The parts of a row of S are added four columns a thread.
inline constexpr int kCombineThreads = 256;
constexpr std::int64_t combine_blocks(const Shape& shape) {  // of a head
  return device::ceil_div(shape.features() * (shape.head_dim / 4), kCombineThreads);
}
constexpr device::Geometry combine_geometry(const Shape& shape, std::int64_t images) {
  return {{images * combine_blocks(shape), shape.num_heads, 1}, {kCombineThreads, 1, 1}};
}

}  // namespace hydrascope::kernels::linear_attention::cuda
