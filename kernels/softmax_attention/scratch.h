// The working memory of softmax attention: one strip's scores and weights (L1), and the state of a
// group of queries between two blocks of keys (L2).
#pragma once

#include "kernels/linear/panel.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::softmax_attention {

/// Keys and values of a block (128 KB at d = 64 in bfloat16) stay in L2 while a group of queries
/// passes.
inline constexpr std::int64_t kBlockKeys = 512;
/// A multiple of the strip: each group reads all keys and values of the head from the shared cache.
inline constexpr std::int64_t kGroupRows = 192;
/// Not a power of two: rows of scores would meet in the same sets of L1.
inline constexpr std::int64_t kScoreStride = kBlockKeys + 32;
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
  std::size_t bytes;

  Scratch(void* memory, std::int64_t head_dim)
      : width(linear::panels_of(head_dim) * linear::kPanelColumns), bytes(0) {
    scores = take<float>(memory, linear::kStripRows * kScoreStride);
    weights = take<T>(memory, linear::kStripRows * kScoreStride);
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
