// The feature maps of linear attention inside the tensor-core kernels, in powers of two: with
// s = slope log2(e) a feature of exponents is 2^(+-s u + offset_f - shift_t), offset_f of the
// feature (its maximum M_f over the keys, negative for keys, positive for queries) and shift_t of
// the token. ex2.approx and lg2.approx are good to 2^-22, a hundred times finer than what features
// are rounded to. linear_attention.h has the maps.
#pragma once

#include "kernels/linear_attention/features.cuh"
#include "kernels/linear_attention/tensor_core_tiles.cuh"

#include <cmath>

namespace hydrascope::kernels::linear_attention::cuda::tensor_core {

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

/// What is known of a kind of map when kernels are compiled.
template <Kind kind>
struct KindTraits {
  static constexpr bool kExponential = kind != Kind::plain;
  static constexpr bool kShifted = kind == Kind::shifted_pair;
  static constexpr int kHalves = kind == Kind::pair || kind == Kind::shifted_pair ? 2 : 1;
  static constexpr int kFeatures = kHalves * kWidth;
  /// Whether there are maps of the kind that look at a token's whole row.
  static constexpr bool kMayNeedRow = kShifted || kind == Kind::plain;
};

/// And what is not.
struct MapParams {
  Feature feature;
  float unit_eps;
  float slope;  ///< of exponents, times log2(e)

  MapParams() = default;
  explicit MapParams(const Shape& shape)
      : feature(shape.feature), unit_eps(shape.unit_eps), slope(slope_of(shape.feature) * kLog2E) {}
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

/// What a map takes from a token's whole row: shifts of both halves, in powers of two; of `unit`
/// 1 / max(|u|, eps) and 1 / |u|, which is 0 for rows that are constants.
struct RowTerms {
  float first = 0;
  float second = 0;
};

/// A row that `lanes` neighbouring lanes hold, `count` values each. `query`: what is the same for
/// all features of a row may be left out.
template <int lanes, Kind kind, int count>
__device__ __forceinline__ RowTerms row_terms(const MapParams& map, const float (&u)[count],
                                              bool query) {
  using device::Sum;
  using device::warp_reduce;
  if constexpr (kind == Kind::plain) {
    float sum = 0;
#pragma unroll
    for (const float x : u) sum += x * x;
    const float norm = sqrtf(warp_reduce<lanes>(sum, Sum()));
    // Asked this way round a NaN stays.
    return {1 / (norm < map.unit_eps ? map.unit_eps : norm), norm < map.unit_eps ? 0.0F : 1 / norm};
  } else {
    if (query && map.feature == Feature::softmax_both) return {};
    // NaN is not a maximum here; it is a feature, so that it gets where it belongs.
    float above = u[0];
    float below = u[0];
#pragma unroll
    for (const float x : u) {
      above = fmaxf(above, x);
      below = fminf(below, x);
    }
#pragma unroll
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
      above = fmaxf(above, device::shuffle_xor(above, offset));
      below = fminf(below, device::shuffle_xor(below, offset));
    }
    above *= map.slope;
    below *= -map.slope;
    if (map.feature == Feature::exp_centred) return {above, below};
    if (map.feature == Feature::softmax_both) above = below = fmaxf(above, below);
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
  if constexpr (kind != Kind::plain) {
    return power_of_two(exponent_in_twos<kind>(map, u, half, offset, shift));
  } else {
    if (map.feature == Feature::elu_plus_one) return u > 0 ? u + 1 : power_of_two(u * kLog2E);
    if (map.feature == Feature::relu) return u < 0 ? 0 : u;  // asked this way round a NaN stays
    return u * inverse;
  }
}

/// 1 / z_f, which is what S_f is divided by; 0 for a feature that no key has.
__device__ __forceinline__ float inverse_of_sum(float z) { return z == 0 ? 0.0F : 1 / z; }

}  // namespace hydrascope::kernels::linear_attention::cuda::tensor_core
