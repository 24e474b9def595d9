// The feature maps of features.cuh in the tensor-core kernels: properties of a kind of map, known
// at compile time, and parameters of a map.
#pragma once

#include "kernels/linear_attention/features.cuh"
#include "kernels/linear_attention/tensor_core_tiles.cuh"

namespace hydrascope::kernels::linear_attention::cuda::tensor_core {

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
        slope(slope_of(feature) * kLog2E) {}
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

/// OfRow, in powers of two, of a row that `lanes` neighbouring lanes hold, `count` values each.
/// `query`: shifts that are the same for all features of a row may be left out.
template <int lanes, Kind kind, int count>
__device__ __forceinline__ OfRow of_row(const MapParams& map, const float (&u)[count], bool query) {
  const auto for_each = [&](const auto& function) {
#pragma unroll
    for (const float x : u) function(x);
  };
  if constexpr (kind == Kind::plain) {
    return norms_of_row<lanes>(map.unit_eps, for_each);
  } else {
    if (query && map.feature == Feature::softmax_both) return {};
    return shifts_of_row<Binary, lanes>(map.feature, map.slope, for_each);
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
    return plain_feature<Binary>(map.feature, u, inverse);
  }
}

/// 1 / z_f, the factor of S_f; 0 for a feature that no key has.
__device__ __forceinline__ float inverse_of_sum(float z) { return z == 0 ? 0.0F : 1 / z; }

}  // namespace hydrascope::kernels::linear_attention::cuda::tensor_core
