#include "tests/kernels/convert/convert_reference.h"

#include <cmath>
#include <limits>

namespace hydrascope::kernels::convert {

double value_reference(std::uint16_t bits, Format format) {
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const int exponent = (bits & 0x7fff) >> format.fraction_bits;
  double size = 0;
  if (exponent == 2 * format.exponent_bias + 1) {
    size = fraction == 0 ? std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    size = std::ldexp(fraction, 1 - format.exponent_bias - format.fraction_bits);
  } else {
    size = std::ldexp((1 << format.fraction_bits) + fraction,
                      exponent - format.exponent_bias - format.fraction_bits);
  }
  return std::copysign(size, (bits & 0x8000) != 0 ? -1.0 : 1.0);
}

double nearest_reference(double x, Format format) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int smallest = 1 - format.exponent_bias;
  const int exponent = std::ilogb(x) < smallest ? smallest : std::ilogb(x);
  const double spacing = std::ldexp(1.0, exponent - format.fraction_bits);
  const double rounded = std::nearbyint(x / spacing) * spacing;  // ties to even by default
  const double end = std::ldexp(1.0, format.exponent_bias + 1);
  return std::abs(rounded) < end ? rounded
                                 : std::copysign(std::numeric_limits<double>::infinity(), x);
}

}  // namespace hydrascope::kernels::convert
