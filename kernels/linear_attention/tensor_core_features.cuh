// The feature maps of linear attention on the device: a map's numbers from a whole row, a feature or
// its exponent from one element (linear_attention.h has the maps). Properties of a kind of map are
// known at compile time; `Feature` is the same for a whole launch.
//
// Exponentials are powers of two: with s = slope log2(e) a feature is 2^(+-s u + offset_f - shift_t),
// offset_f of the feature (its maximum M_f over the keys, negative for keys, positive for queries)
// and shift_t of the token; ex2.approx and lg2.approx are good to 2^-22, a hundred times finer than
// the rounding of features. Maxima ignore a NaN; features keep it, so that it reaches only its own
// row or sums.
//
// Test: tests/kernels/linear_attention/linear_attention_cuda_test.cpp, through the kernels.
#pragma once

#include "kernels/linear_attention/linear_attention.h"
#include "kernels/linear_attention/tensor_core_tiles.cuh"

#include <cmath>
#include <cstdint>

namespace hydrascope::kernels::linear_attention::cuda {

inline constexpr float kLog2E = 1.44269504F;
inline constexpr float kLn2 = 0.693147181F;

#ifdef __CUDACC__
__device__ __forceinline__ float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ __forceinline__ float binary_logarithm(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
#else
inline float power_of_two(float x) { return exp2f(x); }
inline float binary_logarithm(float x) { return log2f(x); }
#endif

/// Properties of a kind of map, known at compile time.
template <Kind kind>
struct KindTraits {
  static constexpr bool kExponential = kind != Kind::plain;
  static constexpr bool kShifted = kind == Kind::shifted_pair;
  static constexpr int kHalves = kind == Kind::pair || kind == Kind::shifted_pair ? 2 : 1;
  static constexpr int kFeatures = kHalves * kWidth;
  /// Whether there are maps of the kind that look at a token's whole row.
  static constexpr bool kMayNeedRow = kShifted || kind == Kind::plain;
};

/// Parameters of a map, known at run time.
struct MapParams {
  Feature feature;
  float unit_eps;
  float slope;  ///< slope of exponents, times log2(e)

  MapParams() = default;
  explicit MapParams(const Shape& shape)
      : feature(shape.rule.feature),
        unit_eps(shape.rule.unit_eps),
        slope((feature == Feature::softmax_both ? 2.0F : 1.0F) * kLog2E) {}
};
template <Kind kind>
__device__ __forceinline__ float slope_in_twos(const MapParams& map) {
  return kind == Kind::shifted_pair ? map.slope : kLog2E;
}
/// Whether this map looks at a token's whole row.
template <Kind kind>
__device__ __forceinline__ bool needs_row_of(const MapParams& map) {
  return kind == Kind::shifted_pair || (kind == Kind::plain && map.feature == Feature::unit);
}

/// A map's numbers from a whole row. Exponents are slope * u - first, of the second part
/// -slope * u - second.
struct alignas(8) OfRow {
  float first = 0;  ///< shift of the first part; `unit`: 1 / max(|u|, unit_eps)
  float second = 0;
};

/// OfRow, in powers of two, of a row that `lanes` neighbouring lanes hold, `count` values each; a
/// collective of these lanes. `query`: shifts that are the same for all features of a row may be
/// left out.
template <int lanes, Kind kind, int count>
__device__ __forceinline__ OfRow of_row(const MapParams& map, const float (&u)[count], bool query) {
  using device::Sum;
  using device::warp_reduce;
  if constexpr (kind == Kind::plain) {
    float sum = 0;
#pragma unroll
    for (const float x : u) sum = fmaf(x, x, sum);
    const float norm = sqrtf(warp_reduce<lanes>(sum, Sum()));
    // This comparison lets a NaN pass.
    return {1 / (norm < map.unit_eps ? map.unit_eps : norm), 0.0F};
  } else {
    if (query && map.feature == Feature::softmax_both) return {};
    const auto most = [](float a, float b) { return fmaxf(a, b); };
    float above = -INFINITY;
    float below = -INFINITY;
#pragma unroll
    for (const float x : u) {
      above = most(above, x);
      below = most(below, -x);
    }
    above = map.slope * warp_reduce<lanes>(above, most);
    below = map.slope * warp_reduce<lanes>(below, most);
    if (map.feature == Feature::exp_centred) return {above, below};
    if (map.feature == Feature::softmax_both) above = below = most(above, below);
    float first = 0;
    float second = 0;
#pragma unroll
    for (const float x : u) {
      first += power_of_two(fmaf(x, map.slope, -above));
      second += power_of_two(fmaf(-x, map.slope, -below));
    }
    first = warp_reduce<lanes>(first, Sum());
    second = warp_reduce<lanes>(second, Sum());
    if (map.feature == Feature::softmax_both) first = second = first + second;
    return {above + binary_logarithm(first), below + binary_logarithm(second)};
  }
}

/// The exponent of element u in a half, in powers of two.
template <Kind kind>
__device__ __forceinline__ float exponent_in_twos(const MapParams& map, float u, int half,
                                                  float offset, float shift) {
  return fmaf(half == 0 ? u : -u, slope_in_twos<kind>(map), offset) - shift;
}
/// The feature of element u; maps without exponents take the row's `inverse` norm instead.
template <Kind kind>
__device__ __forceinline__ float feature_of(const MapParams& map, float u, int half, float offset,
                                            float shift, float inverse) {
  if constexpr (kind != Kind::plain)
    return power_of_two(exponent_in_twos<kind>(map, u, half, offset, shift));
  if (map.feature == Feature::elu_plus_one) return u > 0 ? u + 1 : power_of_two(u * kLog2E);
  if (map.feature == Feature::relu) return u < 0 ? 0 : u;  // this comparison lets a NaN pass
  return u * inverse;
}

}  // namespace hydrascope::kernels::linear_attention::cuda
