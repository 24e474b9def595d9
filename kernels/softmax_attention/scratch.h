// The working memory of softmax attention: one strip's scores and weights (L1), and the state of a
// group of queries between two blocks of keys (L2).
#pragma once

#include "kernels/device/matrix_instructions.h"
#include "kernels/linear/panel.h"
#include "kernels/softmax_attention/softmax_attention.h"

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

/// The blocks of queries and keys that `attend` takes in this process.
template <class T>
Blocking blocking_of(const Shape& shape) {
  constexpr std::int64_t kTileDepth = 32;
  const bool by_tiles = sizeof(T) == 2 && shape.head_dim >= kTileDepth &&
                        device::may_use(device::MatrixInstruction::amx_bf16);
  return by_tiles ? kByTiles : kByVectors;
}

/// A multiple of both strips: each group reads all keys and values of the head from the shared cache.
inline constexpr std::int64_t kGroupRows = 192;
/// Sums of weights are kept by lane (the widest vectors' 16) until the end.
inline constexpr std::size_t kTotalLanes = 16;

template <class T>
struct Scratch {
  float* scores;
  T* weights;
  float* outputs;  ///< (kGroupRows, width)
  float* references;
  float* totals;       ///< (kGroupRows, kTotalLanes)
  std::int64_t width;  ///< d, filled up to whole panels of values
  std::int64_t score_stride;
  std::size_t bytes;

  Scratch(void* memory, std::int64_t head_dim, const Blocking& blocking)
      : width(linear::panels_of(head_dim) * linear::kPanelColumns),
        score_stride(blocking.score_stride()),
        bytes(0) {
    scores = take<float>(memory, blocking.rows * score_stride);
    weights = take<T>(memory, blocking.rows * score_stride);
    outputs = take<float>(memory, kGroupRows * width);
    references = take<float>(memory, kGroupRows);
    totals = take<float>(memory, kGroupRows * static_cast<std::int64_t>(kTotalLanes));
  }

 private:
  /// Sizes are multiples of 64 bytes. Without memory it only counts.
  template <class U>
  U* take(void* memory, std::int64_t count) {
    U* at =
        memory == nullptr ? nullptr : reinterpret_cast<U*>(static_cast<std::byte*>(memory) + bytes);
    bytes += static_cast<std::size_t>(count) * sizeof(U);
    return at;
  }
};

}  // namespace hydrascope::kernels::softmax_attention
