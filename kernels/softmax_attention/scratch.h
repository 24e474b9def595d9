// The working memory of softmax attention: one strip's scores and weights (L1), and the state of a
// group of queries between two blocks of keys (L2).
#pragma once

#include "kernels/device/matrix_instructions.h"
#include "kernels/linear/panel.h"
#include "kernels/softmax_attention/byte_panels.h"
#include "kernels/softmax_attention/softmax_attention.h"
#include "kernels/vector/arrays.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::softmax_attention {

/// The queries of a strip, and the keys of a block, which stay in L2 while a group of queries passes.
struct Blocking {
  int rows;
  std::int64_t keys;
  /// Not a power of two: rows of scores would meet in the same sets of L1.
  [[nodiscard]] constexpr std::int64_t score_stride() const { return keys + 32; }
};
/// 128 KB of keys and values at d = 64 in bfloat16; a strip's scores and weights are 20 KB.
inline constexpr Blocking kByVectors{linear::kStripRows, 512};
/// Two tiles of queries, whose scores and weights are 54 KB: half as many keys.
inline constexpr Blocking kByTiles{32, 256};

/// Whether `attend` multiplies such heads by AMX in this process. Both ways read the same panels.
template <class T>
bool multiplies_by_tiles(std::int64_t head_dim) {
  constexpr std::int64_t kTileDepth = 32;
  return sizeof(T) == 2 && head_dim >= kTileDepth &&
         device::may_use(device::MatrixInstruction::amx_bf16);
}

/// Keys of even blocks of at most `most` keys, whole panels.
constexpr std::int64_t even_block_keys(std::int64_t num_tokens, std::int64_t most) {
  const std::int64_t panels = linear::panels_of(num_tokens);
  const std::int64_t most_panels = most / linear::kPanelColumns;
  const std::int64_t blocks = (panels + most_panels - 1) / most_panels;
  return (panels + blocks - 1) / blocks * linear::kPanelColumns;
}

/// A multiple of both strips: each group reads all keys and values of the head from the shared cache.
inline constexpr std::int64_t kGroupRows = 192;
/// Sums of weights are kept by lane (the widest vectors' 16) until the end.
inline constexpr std::size_t kTotalLanes = 16;

/// A group of queries between two blocks of keys.
struct GroupSums {
  float* outputs;  ///< (kGroupRows, width)
  float* references;
  float* totals;       ///< (kGroupRows, kTotalLanes)
  std::int64_t width;  ///< d, filled up to whole panels of values

  GroupSums(Arrays& arrays, std::int64_t head_dim)
      : width(linear::panels_of(head_dim) * linear::kPanelColumns) {
    outputs = arrays.take<float>(kGroupRows * width);
    references = arrays.take<float>(kGroupRows);
    totals = arrays.take<float>(kGroupRows * static_cast<std::int64_t>(kTotalLanes));
  }
};

template <class T>
struct Scratch : GroupSums {
  float* scores;
  T* weights;
  std::int64_t score_stride;
  std::size_t bytes;

  Scratch(void* memory, std::int64_t head_dim, const Blocking& blocking)
      : Scratch(Arrays(memory), head_dim, blocking) {}

 private:
  Scratch(Arrays arrays, std::int64_t head_dim, const Blocking& blocking)
      : GroupSums(arrays, head_dim), score_stride(blocking.score_stride()) {
    scores = arrays.take<float>(blocking.rows * score_stride);
    weights = arrays.take<T>(blocking.rows * score_stride);
    bytes = arrays.bytes();
  }
};

/// The same for Products::bytes.
struct ByteScratch : GroupSums {
  /// Not a power of two, as above.
  static constexpr std::int64_t kWeightStride = kByteBlockKeys + 64;

  std::int32_t* sums;     ///< (panels of a block, kStripRows, 64); then logarithms of weights
  std::uint8_t* weights;  ///< (kStripRows, kWeightStride)
  std::uint8_t* queries;  ///< (kGroupRows, in_quads(d))
  float* query_scales;
  std::size_t bytes;

  ByteScratch(void* memory, std::int64_t head_dim) : ByteScratch(Arrays(memory), head_dim) {}

 private:
  ByteScratch(Arrays arrays, std::int64_t head_dim) : GroupSums(arrays, head_dim) {
    sums = arrays.take<std::int32_t>(linear::kStripRows * kByteBlockKeys);
    weights = arrays.take<std::uint8_t>(linear::kStripRows * kWeightStride);
    queries = arrays.take<std::uint8_t>(kGroupRows * in_quads(head_dim));
    query_scales = arrays.take<float>(kGroupRows);
    bytes = arrays.bytes();
  }
};

}  // namespace hydrascope::kernels::softmax_attention
