// The feature maps of linear attention on the device: a map's numbers from a whole row, a feature
// or its exponent from one element, and J^T (linear_attention.h has the maps,
// linear_attention_reference.h the rules at points without a derivative). `Feature` is the same for
// a whole launch: a branch on it is cheap outside of inner loops, and vanishes if it is a constant.
//
// Both families of kernels use them, each with exponentials of its own. Float32 arithmetic has e^x.
// Tensor cores have powers of two: with s = slope log2(e) a feature is 2^(+-s u + offset_f - shift_t),
// offset_f of the feature (its maximum M_f over the keys, negative for keys, positive for queries)
// and shift_t of the token; ex2.approx and lg2.approx are good to 2^-22, a hundred times finer than
// the rounding of features.
//
// Numerics: float32; exponents are slope * u - shift. NaN stays.
// Test: tests/kernels/linear_attention/{linear_attention,tensor_core}_cuda_test.cpp, through the
//   kernels.
#pragma once

#include "kernels/device/block.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/linear_attention/linear_attention.h"

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

/// Exponentials of float32 arithmetic.
struct Natural {
  static constexpr float kUnit = 1;  ///< exponents are kept times this
  using Max = device::Max;
  __device__ static float exp(float x) { return expf(x); }
  __device__ static float log(float x) { return logf(x); }
};
/// Exponentials of the tensor-core kernels. Maxima here ignore a NaN; features keep it, so that it
/// reaches only its own row or sums.
struct Binary {
  static constexpr float kUnit = kLog2E;
  struct Max {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  };
  __device__ static float exp(float x) { return power_of_two(x); }
  __device__ static float log(float x) { return binary_logarithm(x); }
};

/// Whether a map looks at a token's whole row before it gives a feature.
constexpr bool needs_row(Feature feature) {
  return feature == Feature::unit || feature >= Feature::softmax_pair;
}
/// Exponents are slope * u - shift.first, of the second part -slope * u - shift.second.
constexpr float slope_of(Feature feature) { return feature == Feature::softmax_both ? 2.0F : 1.0F; }

/// A map's numbers from a whole row.
struct alignas(8) OfRow {
  float first = 0;   ///< shift of the first part; `unit`: 1 / max(|u|, unit_eps)
  float second = 0;  ///< shift of the second part; `unit`: 1 / |u|, 0 for rows that are constants
};

// OfRow of a row that `lanes` neighbouring lanes share; collectives of these lanes. `for_each`
// calls a function with each of a lane's values.

/// OfRow for `unit`.
template <int lanes, class ForEach>
__device__ __forceinline__ OfRow norms_of_row(float unit_eps, const ForEach& for_each) {
  float sum = 0;
  for_each([&](float u) { sum = fmaf(u, u, sum); });
  const float norm = sqrtf(device::warp_reduce<lanes>(sum, device::Sum()));
  // This comparison lets a NaN pass.
  return {1 / (norm < unit_eps ? unit_eps : norm), norm < unit_eps ? 0.0F : 1 / norm};
}
/// OfRow for maps with shifts of each token; `slope` in the arithmetic's unit.
template <class Arithmetic, int lanes, class ForEach>
__device__ __forceinline__ OfRow shifts_of_row(Feature feature, float slope,
                                               const ForEach& for_each) {
  using device::Sum;
  using device::warp_reduce;
  constexpr typename Arithmetic::Max kMax{};
  float above = -INFINITY;
  float below = -INFINITY;
  for_each([&](float u) {
    above = kMax(above, u);
    below = kMax(below, -u);
  });
  above = slope * warp_reduce<lanes>(above, kMax);
  below = slope * warp_reduce<lanes>(below, kMax);
  if (feature == Feature::exp_centred) return {above, below};
  if (feature == Feature::softmax_both) above = below = kMax(above, below);
  float first = 0;
  float second = 0;
  for_each([&](float u) {
    first += Arithmetic::exp(fmaf(u, slope, -above));
    second += Arithmetic::exp(fmaf(-u, slope, -below));
  });
  first = warp_reduce<lanes>(first, Sum());
  second = warp_reduce<lanes>(second, Sum());
  if (feature == Feature::softmax_both) first = second = first + second;
  return {above + Arithmetic::log(first), below + Arithmetic::log(second)};
}

/// The feature that element u gives in a map without exponents.
template <class Arithmetic>
__device__ __forceinline__ float plain_feature(Feature feature, float u, float inverse_norm) {
  if (feature == Feature::elu_plus_one)
    return u > 0 ? u + 1 : Arithmetic::exp(u * Arithmetic::kUnit);
  if (feature == Feature::relu) return u < 0 ? 0 : u;  // this comparison lets a NaN pass
  return u * inverse_norm;
}

/// The gradient of element u of elu_plus_one and relu from its feature's gradient.
template <class Arithmetic>
__device__ __forceinline__ float plain_gradient(Feature feature, float u, float gradient) {
  if (feature == Feature::elu_plus_one)
    return u > 0 ? gradient : gradient * Arithmetic::exp(u * Arithmetic::kUnit);
  return u <= 0 ? 0.0F : gradient;
}

/// Sums over a row that J^T needs: of the gradients of a map's exponents, or of `unit`'s features
/// times their gradients.
struct GradientSums {
  float first = 0;
  float second = 0;         ///< the second part's sum
  float first_maxima = 0;   ///< exp_centred: elements that share the maximum
  float second_maxima = 0;  ///< and the minimum
};
/// The part of an element's gradient by J^T that comes through the norm of `unit`.
__device__ __forceinline__ float through_norm(float u, float gradient, OfRow row, float sum) {
  return (gradient - u * row.first * sum) * row.second;
}
/// The subtrahend for the row's shifts. `above`, `below`: the element's two exponents.
template <class Arithmetic>
__device__ __forceinline__ float through_shifts(Feature feature, float above, float below,
                                                const GradientSums& sums) {
  if (feature == Feature::exp_centred)
    return (above == 0 ? sums.first / sums.first_maxima : 0.0F) -
           (below == 0 ? sums.second / sums.second_maxima : 0.0F);
  const bool both = feature == Feature::softmax_both;
  const float first = both ? sums.first + sums.second : sums.first;
  const float second = both ? first : sums.second;
  return slope_of(feature) * (Arithmetic::exp(above) * first - Arithmetic::exp(below) * second);
}

}  // namespace hydrascope::kernels::linear_attention::cuda
