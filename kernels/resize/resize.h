// Bicubic resampling of one plane with antialiasing. It makes the overview of a large picture from
// its normalised pixels (model/position_embedding.h).
//
// Equation: y = R x C^T. Row i of R holds the weights of output row i, w_j proportional to
//   k((j + 1/2 - c_i) / s), c_i = s (i + 1/2), s = rows of x / rows of y, or 1 where y is larger; k
//   is Keys' cubic with a = -1/2 (Keys 1981, doi 10.1109/TASSP.1981.1163711, equation 15), and the
//   weights of a row sum to 1. The same for the columns. This is what Pillow and LibTorch's
//   _upsample_bicubic2d_aa compute.
// Tensors: x (rows, columns), y (rows, columns), float32, contiguous, any alignment; no overlap.
// Memory: each output row reads 4 s rows of x; s = 4.9 for 1088x1920 -> 224x400. Rows first: 2 * 4
//   s FLOPs per element of x, then of y.
// Numerics: float32 sums, for rows in the order of the taps, for columns in lanes; weights are
//   computed in float64. Tolerance: 2e-6 for values of order one, 1e-7 for a weight.
// Test: tests/kernels/resize/resize_test.cpp, which holds the twin.
#pragma once

#include "kernels/vector/aligned_buffer.h"

#include <cstdint>
#include <vector>

namespace hydrascope::kernels::resize {

/// The weights of each output element of one axis.
struct Taps {
  std::int64_t from = 0;  ///< elements of x along the axis
  std::int64_t most = 0;  ///< weights of an output element, zeros at the end; a multiple of 16
  std::vector<std::int64_t> first;  ///< element of x that the first weight belongs to
  std::vector<std::int64_t> count;  ///< weights that are not filling
  AlignedBuffer<float> weights;     ///< (elements of y, most)

  [[nodiscard]] std::int64_t to() const { return static_cast<std::int64_t>(first.size()); }
};
/// from, to >= 1.
Taps bicubic_taps(std::int64_t from, std::int64_t to);

struct Params {
  const float* x;
  const Taps* rows;
  const Taps* columns;
  std::int64_t first;  ///< output row
  std::int64_t count;
  float* y;        ///< the whole plane; rows first .. first + count are written
  float* scratch;  ///< scratch_floats; each thread needs its own
};
inline std::int64_t scratch_floats(const Taps& columns) { return columns.from + columns.most; }
void resize(const Params& params);

}  // namespace hydrascope::kernels::resize
