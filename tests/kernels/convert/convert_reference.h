// The naive twin of convert.h: what a binary floating-point format means, in float64.
#pragma once

#include <cstdint>

namespace hydrascope::kernels::convert {

/// A format of 16 bits: sign, exponent, fraction.
struct Format {
  int fraction_bits;
  int exponent_bias;
};
inline constexpr Format kFloat16{10, 15};
inline constexpr Format kBFloat16{7, 127};

/// The value of a bit pattern.
double value_reference(std::uint16_t bits, Format format);
/// The value of the format nearest to x, ties to even.
double nearest_reference(double x, Format format);

}  // namespace hydrascope::kernels::convert
