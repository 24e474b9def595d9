// Linear layers on 8-bit integers: y = epilogue(x W^T + b) with x quantised row by row when it is
// known, W output by output when packed.
//
// Equations: a row has the least value lo and the greatest value hi,
//     u_k = round((x_k - lo) / s), s = (hi - lo) / 255, so that x_k = s u_k + lo up to s / 2
//     (uint8)
//   an output has the greatest |W_ok| m,
//     w_ok = round(W_ok / t_o), t_o = m / 127                                               (int8)
//   y_io = s_i t_o sum_k u_ik w_ok + lo_i t_o sum_k w_ok + b_o, the first sum in int32 (exact for
//   in <= 66000), the second one packed with the weight. Ranges by token need no calibration and
//   follow each picture; calibration gives `multiplier`: x_k m_k meets W_ok / m_k, so that
//   channels with large values do not take the others' resolution (Xiao et al. 2022, arXiv
//   2211.10438, equation 4).
// Tensors: x (rows, in) and y (rows, out) in T, float32 or bfloat16, rows contiguous, strides free,
//   any alignment. Quantised rows are kept for several layers: values 64-byte aligned rows of
//   row_bytes(in), zeros after `in`.
// Work: quantise reads a row twice and writes one byte per value; linear as in linear/linear.h with
//   half the bytes and, by vpdpbusd (AVX512_VNNI, AVX-VNNI), twice the products per instruction of
//   bfloat16; by AMX where the processor has it (amx/tile_layer.h). Without any of them: vpmaddubsw
//   on pairs of weights that fit it (paired_panels.h), up to twice the products of float32; NEON: two
//   multiply-adds of int16 pairs for four products.
// Numerics: integer sums are exact, so all instruction sets agree but for the epilogue's rounding.
//   NaN or infinity in x makes that row's y NaN. Tolerance, against the quantised numbers' product:
//   1e-5 of the size of x, and 1e-6 (float32) or 2^-8 (bfloat16) of the largest |y|.
// Test: tests/kernels/quantised_linear/quantised_linear_test.cpp.
// Twin: quantised_linear_reference.h.
#pragma once

#include "kernels/device/thread_team.h"
#include "kernels/linear/linear.h"
#include "kernels/quantised_linear/paired_panels.h"
#include "kernels/vector/aligned_buffer.h"
#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::quantised_linear {

/// Bytes from one quantised row to the next: zeros fill up what one step of AMX reads.
constexpr std::int64_t row_bytes(std::int64_t in) { return (in + 63) / 64 * 64; }

/// The forms of a packed weight:
///   quads   every instruction set multiplies them, AVX without vpdpbusd by scalars only
///   pairs   of paired_panels.h, for AVX without vpdpbusd
///   tiles   AMX's (amx/tile_weights.h)
enum class WeightForm { quads, pairs, tiles };
/// Whether this process can multiply by such weights.
bool reads_form(WeightForm form);
/// The form that this process multiplies fastest.
WeightForm fastest_form();

/// A weight (out, in) as panels of 64 outputs, four k of an output side by side, with zeros up to
/// k = row_bytes(in): panel[k / 4][64][4]; these bytes as tiles; or as pairs.
class QuantisedWeight {
 public:
  QuantisedWeight() = default;
  /// weight: (out, in) float32, rows `row_stride` apart, finite. A form that this process does not read
  /// is an error. `team` packs panels side by side, but pairs are packed by the caller, as all are
  /// without a team.
  QuantisedWeight(const float* weight, std::int64_t out, std::int64_t in, std::int64_t row_stride,
                  WeightForm form = fastest_form(), device::ThreadTeam* team = nullptr);

  [[nodiscard]] std::int64_t in() const noexcept { return in_; }
  [[nodiscard]] std::int64_t out() const noexcept { return out_; }
  [[nodiscard]] WeightForm form() const noexcept { return form_; }
  /// A panel of quads, or in the order of tiles.
  [[nodiscard]] const std::int8_t* panel(std::int64_t index) const noexcept {
    return panels_.data() + index * panel_size(in_);
  }
  /// Empty in the other forms.
  [[nodiscard]] const PairedPanels& pairs() const noexcept { return pairs_; }
  /// (out, rounded up to 64 with zeros): t_o, and t_o sum_k w_ok.
  [[nodiscard]] const float* scale() const noexcept { return scale_.data(); }
  [[nodiscard]] const float* sum() const noexcept { return sum_.data(); }

 private:
  static std::int64_t panel_size(std::int64_t in) { return row_bytes(in) * linear::kPanelColumns; }
  std::int64_t in_ = 0;
  std::int64_t out_ = 0;
  WeightForm form_ = WeightForm::quads;
  AlignedBuffer<std::int8_t> panels_;
  PairedPanels pairs_;
  AlignedBuffer<float> scale_;
  AlignedBuffer<float> sum_;
};

/// Quantised rows: x_k m_k = scale u_k + least.
struct Rows {
  std::uint8_t* values;  ///< (rows, row_bytes(in)), 64-byte aligned
  float* scale;          ///< (rows)
  float* least;          ///< (rows)
};

template <class T>
struct QuantiseParams {
  const T* x;
  std::int64_t x_stride;
  std::int64_t rows;
  std::int64_t in;
  const float* multiplier;  ///< m (in), positive; null: all 1
  Rows out;
};
void quantise(const QuantiseParams<float>& params);
void quantise(const QuantiseParams<BFloat16>& params);

template <class T>
struct LinearParams {
  Rows x;
  std::int64_t rows;
  const QuantisedWeight* weight;
  const float* bias;  ///< null: none
  T* y;
  std::int64_t y_stride;
  linear::Epilogue epilogue;
  linear::Outputs outputs = {};  ///< the columns of y that are computed
};
/// On the calling thread.
void linear(const LinearParams<float>& params);
void linear(const LinearParams<BFloat16>& params);

}  // namespace hydrascope::kernels::quantised_linear
