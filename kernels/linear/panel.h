// Panels: the packed form of the right-hand side of a matrix product on the CPU.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::linear {

inline constexpr std::int64_t kPanelColumns = 64;
/// Rows of A whose sums the micro-kernel keeps in registers.
inline constexpr int kStripRows = 6;

/// Elements of one panel over `depth` rows: bfloat16 rows come in pairs.
template <class T>
constexpr std::int64_t panel_size(std::int64_t depth) {
  return (sizeof(T) == 2 ? (depth + 1) / 2 * 2 : depth) * kPanelColumns;
}

/// One call of the micro-kernel: C (rows, 64) (+)= A (rows, depth) * panel.
/// A is read at a[row * row_stride + step * step_stride]; a step is one element (float32) or two
/// neighbours (bfloat16): step_stride is 1 or 2 for rows that lie contiguous.
template <class T>
struct Strip {
  const T* a;
  std::int64_t row_stride;
  std::int64_t step_stride;
  std::int64_t depth;
  const T* panel;
  float* c;
  std::int64_t c_stride;
  bool accumulate;
};
}  // namespace hydrascope::kernels::linear
