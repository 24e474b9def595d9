// The feature maps of linear attention on the device: what a map takes from a whole row, a feature
// or its exponent from one element, and J^T (linear_attention.h has the maps,
// linear_attention_reference.h the rules where a map is not differentiable). `Feature` is the same
// for a whole launch: a branch on it is cheap outside of inner loops, and vanishes where it is a
// constant.
//
// Numerics: float32; exponents are slope * u - shift, each operation rounded once. NaN stays.
// Test: tests/kernels/linear_attention/linear_attention_cuda_test.cpp, through the kernels.
#pragma once

#include "kernels/device/block.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/linear_attention/linear_attention.h"

#include <cmath>
#include <cstdint>

namespace hydrascope::kernels::linear_attention::cuda {

/// A map as kernels are given it.
struct Map {
  Feature feature;
  int width;     ///< w
  int features;  ///< F
  float unit_eps;

  explicit Map(const Shape& shape)
      : feature(shape.feature),
        width(static_cast<int>(shape.width)),
        features(static_cast<int>(shape.features())),
        unit_eps(shape.unit_eps) {}
};

/// Whether a map looks at a token's whole row before it gives a feature.
constexpr bool needs_row(Feature feature) {
  return feature == Feature::unit || feature >= Feature::softmax_pair;
}
/// Exponents are slope * u - shift.first, of the second part -slope * u - shift.second.
constexpr float slope_of(Feature feature) { return feature == Feature::softmax_both ? 2.0F : 1.0F; }

/// What a map takes from a whole row.
struct OfRow {
  float first = 0;   ///< shift of the first part; `unit`: 1 / max(|u|, unit_eps)
  float second = 0;  ///< shift of the second part; `unit`: 1 / |u|, 0 for rows that are constants
};

/// OfRow of row u (`width` values), as a collective of groups of `lanes` neighbouring lanes, each
/// with its own row and width (0: nothing is read, the result means nothing). `lane` counts within
/// the group.
template <int lanes, class T>
__device__ __forceinline__ OfRow of_row(Feature feature, const T* u, int width, float unit_eps,
                                        int lane) {
  using device::Max;
  using device::Sum;
  using device::to_float;
  using device::warp_reduce;
  if (feature == Feature::unit) {
    float sum = 0;
    for (int j = lane; j < width; j += lanes) sum += to_float(u[j]) * to_float(u[j]);
    const float norm = sqrtf(warp_reduce<lanes>(sum, Sum()));
    // Asked this way round a NaN stays.
    return {1 / (norm < unit_eps ? unit_eps : norm), norm < unit_eps ? 0 : 1 / norm};
  }
  if (feature < Feature::softmax_pair) return {};
  const float slope = slope_of(feature);
  float above = -INFINITY;
  float below = -INFINITY;
  for (int j = lane; j < width; j += lanes) {
    const float x = slope * to_float(u[j]);
    above = Max()(above, x);
    below = Max()(below, -x);
  }
  above = warp_reduce<lanes>(above, Max());
  below = warp_reduce<lanes>(below, Max());
  if (feature == Feature::exp_centred) return {above, below};
  if (feature == Feature::softmax_both) above = below = Max()(above, below);
  float first = 0;
  float second = 0;
  for (int j = lane; j < width; j += lanes) {
    const float x = slope * to_float(u[j]);
    first += expf(x - above);
    second += expf(-x - below);
  }
  first = warp_reduce<lanes>(first, Sum());
  second = warp_reduce<lanes>(second, Sum());
  if (feature == Feature::softmax_both) {
    const float shift = above + logf(first + second);
    return {shift, shift};
  }
  return {above + logf(first), below + logf(second)};
}

/// The exponent that element u gives in the first or second part of a map that has exponents.
__device__ __forceinline__ float exponent(Feature feature, float u, bool second, OfRow row) {
  const float x = slope_of(feature) * u;
  return second ? -x - row.second : x - row.first;
}

/// The feature that element u gives in a map without exponents.
__device__ __forceinline__ float plain_feature(Feature feature, float u, OfRow row) {
  if (feature == Feature::elu_plus_one) return u > 0 ? u + 1 : expf(u);
  if (feature == Feature::relu) return u < 0 ? 0 : u;  // asked this way round a NaN stays
  return u * row.first;
}

/// The largest U_f + M_f of a row of queries; a collective like of_row, whose result `row` is.
template <int lanes, class T>
__device__ __forceinline__ float largest_exponent(const Map& map, const T* u, int width, OfRow row,
                                                  const float* maximum, int lane) {
  float largest = -INFINITY;
  for (int j = lane; j < width; j += lanes) {
    const float x = device::to_float(u[j]);
    largest = device::Max()(largest, exponent(map.feature, x, false, row) + maximum[j]);
    if (map.features > map.width)
      largest =
          device::Max()(largest, exponent(map.feature, x, true, row) + maximum[map.width + j]);
  }
  return device::warp_reduce<lanes>(largest, device::Max());
}

/// The gradient that one element has as a feature or, where the map has exponents, as the exponents
/// of both parts (0 where there is no second part).
struct OfParts {
  float first;
  float second;
};
/// Sums over a row that J^T needs.
struct GradientSums {
  float first = 0;          ///< of the first part's gradients; `unit`: of feature * gradient
  float second = 0;         ///< of the second part's
  float first_maxima = 0;   ///< exp_centred: elements that share the maximum
  float second_maxima = 0;  ///< and the minimum
};
constexpr bool needs_gradient_sums(Feature feature) { return needs_row(feature); }

/// What one element adds to GradientSums.
__device__ __forceinline__ GradientSums gradient_terms(Feature feature, float u, OfRow row,
                                                       OfParts gradient) {
  if (feature == Feature::unit) return {u * row.first * gradient.first, 0, 0, 0};
  const bool centred = feature == Feature::exp_centred;
  return {gradient.first, gradient.second,
          centred && exponent(feature, u, false, row) == 0 ? 1.0F : 0.0F,
          centred && exponent(feature, u, true, row) == 0 ? 1.0F : 0.0F};
}

/// J^T: the gradient of u. `sums` is read where needs_gradient_sums.
__device__ __forceinline__ float pulled_back(Feature feature, float u, OfRow row, OfParts gradient,
                                             const GradientSums& sums) {
  switch (feature) {
    case Feature::elu_plus_one: return gradient.first * (u > 0 ? 1.0F : expf(u));
    case Feature::relu: return u <= 0 ? 0 : gradient.first;
    case Feature::unit: return (gradient.first - u * row.first * sums.first) * row.second;
    case Feature::exp: return gradient.first;
    case Feature::exp_pair: return gradient.first - gradient.second;
    default: break;
  }
  const float above = exponent(feature, u, false, row);
  const float below = exponent(feature, u, true, row);
  if (feature == Feature::exp_centred) {
    const float first = above == 0 ? sums.first / sums.first_maxima : 0;
    const float second = below == 0 ? sums.second / sums.second_maxima : 0;
    return gradient.first - first - (gradient.second - second);
  }
  float first = sums.first;
  float second = sums.second;
  if (feature == Feature::softmax_both) first = second = first + second;
  return slope_of(feature) *
         (gradient.first - expf(above) * first - (gradient.second - expf(below) * second));
}

}  // namespace hydrascope::kernels::linear_attention::cuda
