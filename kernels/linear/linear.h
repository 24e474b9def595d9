// Linear layers on the CPU: y = epilogue(x W^T + b), with the weight packed once.
//
// Equation: y[i, o] = e(sum_k x[i, k] W[o, k] + b[o]); e is the identity, GELU, or the addition of
//   the old y. Source: packed panels and sums in registers as in Goto and van de Geijn 2008 (doi
//   10.1145/1356052.1356053).
// Tensors: x (rows, in) and y (rows, out), float32 or bfloat16, rows contiguous, strides free, any
//   alignment; W (out, in) float32 when packed; b (out) float32. x and y may not overlap.
// Work: 2 rows in out FLOPs. The in * out weights are read from the shared cache once for all rows:
//   rows (a tile of tokens) must be so many that 2 rows FLOPs per element hide these reads, and so
//   few that x and y stay in the core's own L2. bfloat16 uses vdpbf16ps or AMX (amx/tile_layer.h)
//   if the processor has them. Without them rows of float32 are faster, which weights in bfloat16
//   serve as well: a panel is expanded once for some hundred rows.
// Numerics: float32 sums over k in order (AMX: the even and the odd k of each 32 apart), one
//   rounding when stored. A result depends neither on the other rows and outputs nor on the number of
//   threads, but on the instructions. Tolerance: 2e-5, and 1e-6 (float32) or 2^-8 (bfloat16) of the
//   largest |y|.
// Test: tests/kernels/linear/linear_test.cpp; twin: linear_reference.h beside it.
#pragma once

#include "kernels/device/thread_team.h"
#include "kernels/linear/panel.h"
#include "kernels/vector/aligned_buffer.h"
#include "kernels/vector/scalar_types.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::kernels::linear {

/// A weight (out, in) as panels of 64 outputs; the last one is filled up with zeros.
class PackedWeight {
 public:
  PackedWeight() = default;
  /// weight: (out, in) float32, rows `row_stride` apart; rounded to `storage`. Tiles are of weights in
  /// bfloat16 of at least 32 inputs, others are panels in either form; tiles that this process cannot
  /// read (device::may_use) are an error. `team` packs panels side by side, each in memory that its
  /// thread touches first; null: the caller packs.
  PackedWeight(Storage storage, const float* weight, std::int64_t out, std::int64_t in,
               std::int64_t row_stride, Form form = Form::automatic,
               device::ThreadTeam* team = nullptr);

  [[nodiscard]] Storage storage() const noexcept { return storage_; }
  [[nodiscard]] std::int64_t in() const noexcept { return in_; }
  [[nodiscard]] std::int64_t out() const noexcept { return out_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return panels_.size(); }
  /// Panels or tiles: which function multiplies by this weight.
  [[nodiscard]] Form form() const noexcept { return form_; }
  /// Panel `index`; T is the storage's type.
  template <class T>
  [[nodiscard]] const T* panel(std::int64_t index) const noexcept {
    return reinterpret_cast<const T*>(panels_.data()) + index * panel_size<T>(in_);
  }

 private:
  template <class T>
  void fill(std::int64_t panel, const float* weight, std::int64_t row_stride);

  Storage storage_ = Storage::float32;
  std::int64_t in_ = 0;
  std::int64_t out_ = 0;
  Form form_ = Form::panels;
  AlignedBuffer<std::byte> panels_;
};

enum class Epilogue {
  store,  ///< y = x W^T + b
  gelu,   ///< y = GELU(x W^T + b), by erf
  add,    ///< y += x W^T + b
};

template <class T>
struct LinearParams {
  const T* x;
  std::int64_t x_stride;
  std::int64_t rows;
  const PackedWeight* weight;
  const float* bias;  ///< null: none
  T* y;
  std::int64_t y_stride;
  Epilogue epilogue;
  Outputs outputs = {};  ///< the columns of y that are computed
};

/// On the calling thread. Rows of float32 and a weight of tiles are an error.
void linear(const LinearParams<float>& params);
void linear(const LinearParams<BFloat16>& params);

}  // namespace hydrascope::kernels::linear
