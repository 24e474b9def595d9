// Panels: the packed form of the right-hand side of a matrix product on the CPU.
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstdint>
#include <limits>

namespace hydrascope::kernels::linear {

inline constexpr std::int64_t kPanelColumns = 64;
/// Rows of A whose sums the micro-kernel keeps in registers.
inline constexpr int kStripRows = 6;

/// Rows for which a panel is converted once where the micro-kernel multiplies another type than is
/// stored; the sums of so many rows wait for the next piece of the panel.
inline constexpr std::int64_t kBlockRows = 192;
/// Rows of even blocks of at most kBlockRows, a multiple of kStripRows.
constexpr std::int64_t block_rows(std::int64_t rows) {
  const std::int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  if (blocks <= 1) return kBlockRows;
  return ((rows + blocks - 1) / blocks + kStripRows - 1) / kStripRows * kStripRows;
}

/// Panels of that many columns.
constexpr std::int64_t panels_of(std::int64_t columns) {
  return (columns + kPanelColumns - 1) / kPanelColumns;
}
/// Columns of the panel that begins at column `first` of `columns`.
constexpr std::int64_t panel_columns(std::int64_t first, std::int64_t columns) {
  return columns - first < kPanelColumns ? columns - first : kPanelColumns;
}

/// Outputs first .. end of a product, all by default: whole panels, or up to the last output.
struct Outputs {
  std::int64_t first = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
  [[nodiscard]] constexpr std::int64_t end_of(std::int64_t out) const {
    return end < out ? end : out;
  }
};

/// Elements of one panel over `depth` rows: bfloat16 rows come in pairs.
template <class T>
constexpr std::int64_t panel_size(std::int64_t depth) {
  return (sizeof(T) == 2 ? (depth + 1) / 2 * 2 : depth) * kPanelColumns;
}

/// The order of a packed weight's bytes, each read by one function: panels by vectors, tiles by AMX
/// (amx/tile_weights.h). `automatic`: tiles where rows of the weight's storage may be multiplied so.
enum class Form { automatic, panels, tiles };

/// Packs the panel of a matrix of depth x columns that begins at column `first`: `rows` rows in groups of
/// kGroup, in each group the elements of a column side by side. `at(row, column)` gives an element, and is
/// called once for each; outside the matrix there are zeros. `rows`: a multiple of kGroup, at least
/// `depth`.
template <std::int64_t kGroup, class T, class At>
void fill_panel(std::int64_t first, std::int64_t rows, std::int64_t depth, std::int64_t columns,
                const At& at, T* panel) {
  for (std::int64_t row = 0; row < rows; row += kGroup)
    for (std::int64_t column = first; column < first + kPanelColumns; ++column)
      for (std::int64_t i = row; i < row + kGroup; ++i)
        *panel++ = column < columns && i < depth ? at(i, column) : T{};
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
