// How linear attention on tensor cores is divided: which shapes it serves, splits of the tokens,
// tiles of a block, grids and working memory. Plain host functions, so that they can be asked
// without a GPU. Test: tests/kernels/linear_attention/tensor_core_cuda_test.cpp.
#pragma once

#include "kernels/device/geometry.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/vector/scalar_types.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace hydrascope::kernels::linear_attention::cuda::tensor_core {

inline constexpr int kWarps = 4;
inline constexpr int kThreads = 32 * kWarps;
inline constexpr int kWidth = 64;                     ///< w and d: the heads of ViT and DeiT
inline constexpr int kWarpRows = 16;                  ///< rows of the instruction's left operand
inline constexpr int kTileRows = kWarps * kWarpRows;  ///< tokens a block has at a time

/// Maps as kernels are instantiated for: those with exponents of both signs, the ones among them
/// that subtract something of each token, exponents of one sign, no exponents. Which map of its
/// kind it is, kernels are told.
enum class Kind { pair, shifted_pair, single, plain };
constexpr Kind kind_of(Feature feature) {
  if (feature < Feature::exp) return Kind::plain;
  if (feature == Feature::exp) return Kind::single;
  return feature == Feature::exp_pair ? Kind::pair : Kind::shifted_pair;
}

/// Heads of 64 in 16 bits; float16 where features cannot leave its range, that is where they are
/// stabilised exponentials.
template <class T>
constexpr bool serves(const Shape& shape) {
  return sizeof(T) == 2 && shape.width == kWidth && shape.head_dim == kWidth &&
         (std::is_same_v<T, BFloat16> || is_exponential(shape.feature));
}

constexpr std::int64_t tiles_of(std::int64_t rows) { return device::ceil_div(rows, kTileRows); }

/// Into how many parts the tokens of an image are summed. Never of the batch, so that an image's
/// result is the same alone and among others. Two blocks on each multiprocessor at batch 1;
/// but at least 4 tiles a part (64 KB of k and v), since every part writes 33 KB of sums.
constexpr std::int64_t splits_of(std::int64_t tokens, std::int64_t heads) {
  const std::int64_t wanted = device::ceil_div(2 * device::kMultiprocessors, heads);
  return std::max<std::int64_t>(1, std::min(wanted, tiles_of(tokens) / 4));
}

/// Tiles of rows that one block reads out, after it has loaded S once (32 KB against 16 KB per
/// tile): as many as leave three blocks for every multiprocessor, up to 8. Rows do not depend on
/// each other, so this may depend on the batch; a test asks for few multiprocessors, so that few
/// rows are several tiles per block.
constexpr std::int64_t tiles_a_block(std::int64_t images, std::int64_t heads, std::int64_t rows,
                                     std::int64_t multiprocessors = device::kMultiprocessors) {
  const std::int64_t tiles = tiles_of(rows);
  return std::clamp<std::int64_t>(images * heads * tiles / (3 * multiprocessors), 1,
                                  std::clamp<std::int64_t>(tiles, 1, 8));
}

/// Grid of the kernels that sum over tokens.
constexpr device::Geometry state_geometry(std::int64_t images, std::int64_t heads,
                                          std::int64_t tokens) {
  return {{images * splits_of(tokens, heads), heads, 1}, {kThreads, 1, 1}};
}
/// Grid of the kernels whose rows are independent.
constexpr device::Geometry rows_geometry(std::int64_t images, std::int64_t heads, std::int64_t rows,
                                         std::int64_t multiprocessors = device::kMultiprocessors) {
  const std::int64_t tiles = tiles_a_block(images, heads, rows, multiprocessors);
  return {{images * device::ceil_div(tiles_of(rows), tiles), heads, 1}, {kThreads, 1, 1}};
}

/// The combining kernel's blocks have one thread for four values of a row.
inline constexpr int kCombineThreads = 256;
inline constexpr int kCombineRows = kCombineThreads / (kWidth / 4);
constexpr device::Geometry combine_geometry(std::int64_t images, std::int64_t heads,
                                            std::int64_t features) {
  return {{images * features / kCombineRows, heads, 1}, {kCombineThreads, 1, 1}};
}

/// Sums over tokens, one after the other: rows (B, H, parts, F, d), then z and M (B, H, parts, F).
constexpr std::int64_t sum_floats(const Shape& shape, std::int64_t images, std::int64_t parts) {
  return images * shape.num_heads * parts * shape.features() * (kWidth + 2);
}
constexpr std::size_t rounded_bytes(std::int64_t bytes) {
  return static_cast<std::size_t>(device::ceil_div(bytes, 256) * 256);
}
/// The sums of all parts, where there is more than one.
constexpr std::size_t part_bytes(const Shape& shape, std::int64_t images, std::int64_t tokens) {
  const std::int64_t splits = splits_of(tokens, shape.num_heads);
  return splits == 1 ? 0 : rounded_bytes(4 * sum_floats(shape, images, splits));
}
/// dS and dz.
constexpr std::size_t gradient_sum_bytes(const Shape& shape, std::int64_t images) {
  return rounded_bytes(4 * sum_floats(shape, images, 1));
}
/// What the sums over queries need of each query: 16 bytes.
constexpr std::size_t term_bytes(const Shape& shape, std::int64_t images, std::int64_t queries) {
  return rounded_bytes(16 * images * shape.num_heads * queries);
}

}  // namespace hydrascope::kernels::linear_attention::cuda::tensor_core
