// The marks of a scale of numbers, and their text.
#pragma once

#include <string>
#include <vector>

namespace hydrascope::viz {

/// The values of the first and the last mark, or colour.
struct ValueRange {
  float low = 0;
  float high = 0;
};

struct Tick {
  double value = 0;
  std::string text;  ///< value / 10^exponent, with as many digits as tell neighbours apart
};

struct Ticks {
  std::vector<Tick> ticks;  ///< ascending, within the range
  int exponent = 0;         ///< other than 0 where numbers would be very small or very large
  [[nodiscard]] std::string factor() const;  ///< "×10⁻⁵"; empty for 0
};

/// Multiples of 1, 2, 2.5 or 5 times a power of ten, at most `most` (at least 2) of them: a range
/// around 0 has its marks symmetric and at 0. A range without extent has one, its value.
Ticks ticks_of(const ValueRange& range, int most);

/// 1, 2 and 5 of every decade, where `logarithms` is the range of the numbers' base 10 logarithms.
Ticks decade_ticks(const ValueRange& logarithms);

}  // namespace hydrascope::viz
