#include "kernels/layer_norm/layer_norm.h"

#include "kernels/vector/dispatch.h"

#include <cmath>

// foreach_target.h includes this file once per instruction set, so it precedes the compiled code.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm/layer_norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/vector/vector_io-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

// Sums that run side by side: an addition takes four cycles, and two start in each. Vectors of four numbers are
// half as long as AVX2's: as many sums of numbers keep the mean of a long row as exact.
constexpr std::size_t kRowSums = HWY_MAX_BYTES == 16 ? 8 : 4;

/// The sum of all numbers in `sums`, which it overwrites.
HWY_INLINE float joined_sum(VecF32 (&sums)[kRowSums]) {
  for (std::size_t left = kRowSums / 2; left > 0; left /= 2)
    for (std::size_t k = 0; k < left; ++k) sums[k] = hn::Add(sums[2 * k], sums[2 * k + 1]);
  return sum_of_lanes(sums[0]);
}

template <class T>
HWY_INLINE float row_sum(const T* x, std::size_t dim) {
  const F32 d;
  const std::size_t n = hn::Lanes(d);
  VecF32 sums[kRowSums];
  for (VecF32& sum : sums) sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kRowSums * n <= dim; i += kRowSums * n)
    for (std::size_t k = 0; k < kRowSums; ++k) sums[k] = hn::Add(sums[k], load(x + i + k * n));
  for (; i + n <= dim; i += n) sums[0] = hn::Add(sums[0], load(x + i));
  if (i < dim) sums[1] = hn::Add(sums[1], load_n(x + i, dim - i));
  return joined_sum(sums);
}

struct Deviations {
  float sum;
  float squares;
};

/// Sums of x - mean and of its squares.
template <class T>
HWY_INLINE Deviations row_deviations(const T* x, std::size_t dim, float mean) {
  const F32 d;
  const std::size_t n = hn::Lanes(d);
  const VecF32 middle = hn::Set(d, mean);
  VecF32 sums[kRowSums];
  VecF32 squares[kRowSums];
  for (std::size_t k = 0; k < kRowSums; ++k) sums[k] = squares[k] = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kRowSums * n <= dim; i += kRowSums * n) {
    for (std::size_t k = 0; k < kRowSums; ++k) {
      const VecF32 deviations = hn::Sub(load(x + i + k * n), middle);
      sums[k] = hn::Add(sums[k], deviations);
      squares[k] = hn::MulAdd(deviations, deviations, squares[k]);
    }
  }
  for (; i < dim; i += n) {
    const bool whole = i + n <= dim;
    VecF32 deviations = hn::Sub(whole ? load(x + i) : load_n(x + i, dim - i), middle);
    // The lanes after the row must not count: load_n gives zero there, not the mean.
    if (!whole) deviations = hn::IfThenElseZero(hn::FirstN(d, dim - i), deviations);
    sums[0] = hn::Add(sums[0], deviations);
    squares[0] = hn::MulAdd(deviations, deviations, squares[0]);
  }
  return {joined_sum(sums), joined_sum(squares)};
}

/// v * weight + bias; an absent one is left out.
template <bool kWeight, bool kBias>
HWY_INLINE VecF32 affine(VecF32 v, VecF32 weight, VecF32 bias) {
  if constexpr (kWeight && kBias)
    return hn::MulAdd(v, weight, bias);
  else if constexpr (kWeight)
    return hn::Mul(v, weight);
  else if constexpr (kBias)
    return hn::Add(v, bias);
  else
    return v;
}

template <bool kWeight, bool kBias, class T>
void layer_norm_rows(const layer_norm::LayerNormParams<T>& p) {
  const F32 d;
  const std::size_t n = hn::Lanes(d);
  const auto dim = static_cast<std::size_t>(p.dim);
  const float each = 1.0F / static_cast<float>(p.dim);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const T* x = p.x + row * p.x_stride;
    T* y = p.y + row * p.y_stride;
    const float mean = p.rms ? 0.0F : row_sum(x, dim) * each;
    const Deviations deviations = row_deviations(x, dim, mean);
    const float correction = p.rms ? 0.0F : deviations.sum * each;
    // A rounding may bring a constant row below zero. A NaN stays.
    const float centred = deviations.squares - deviations.sum * correction;
    const float variance = centred < 0 ? 0.0F : centred * each;
    const float scale = 1.0F / std::sqrt(variance + p.eps);
    const VecF32 middle = hn::Set(d, mean);
    const VecF32 scales = hn::Set(d, scale);
    // x - mean is exact where it matters; the correction joins after it.
    const VecF32 shift = hn::Set(d, -correction * scale);
    std::size_t i = 0;
    for (; i + n <= dim; i += n) {
      const VecF32 v = hn::MulAdd(hn::Sub(load(x + i), middle), scales, shift);
      store(
          affine<kWeight, kBias>(v, kWeight ? load(p.weight + i) : v, kBias ? load(p.bias + i) : v),
          y + i);
    }
    if (i < dim) {
      const std::size_t rest_of_row = dim - i;
      const VecF32 v = hn::MulAdd(hn::Sub(load_n(x + i, rest_of_row), middle), scales, shift);
      store_n(affine<kWeight, kBias>(v, kWeight ? load_n(p.weight + i, rest_of_row) : v,
                                     kBias ? load_n(p.bias + i, rest_of_row) : v),
              y + i, rest_of_row);
    }
  }
}

template <class T>
HWY_INLINE void layer_norm_of(const layer_norm::LayerNormParams<T>& p) {
  if (p.weight != nullptr) {
    p.bias != nullptr ? layer_norm_rows<true, true>(p) : layer_norm_rows<true, false>(p);
  } else {
    p.bias != nullptr ? layer_norm_rows<false, true>(p) : layer_norm_rows<false, false>(p);
  }
}

HYDRASCOPE_STORED_KERNELS(layer_norm, layer_norm_of, layer_norm::LayerNormParams)

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hydrascope::kernels::layer_norm {

HYDRASCOPE_DISPATCH(layer_norm, layer_norm, LayerNormParams)

}  // namespace hydrascope::kernels::layer_norm
#endif  // HWY_ONCE
