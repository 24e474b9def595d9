#include "viz/scale/ticks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace hydrascope::viz {
namespace {

/// With a minus sign instead of a hyphen, and no -0.
std::string number_text(double value, int decimals) {
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.*f", decimals, std::abs(value));
  const std::string digits(text.data(), static_cast<std::size_t>(std::clamp(length, 0, 63)));
  const bool is_zero = digits.find_first_not_of("0.") == digits.npos;
  return (value < 0 && !is_zero ? "\u2212" : "") + digits;
}

int exponent_of(double magnitude) {
  if (magnitude == 0 || (magnitude >= 1e-3 && magnitude < 1e5)) return 0;
  return static_cast<int>(std::floor(std::log10(magnitude)));
}

/// A step, as a number of one or two digits times a power of ten.
struct Step {
  double mantissa;
  int exponent;
  [[nodiscard]] double value() const { return mantissa * std::pow(10.0, exponent); }
  [[nodiscard]] int decimals(int of_exponent) const {
    return std::clamp(of_exponent - exponent + (mantissa == 2.5 ? 1 : 0), 0, 12);
  }
};

/// The multiples of a step within a range; ends that are multiples but for rounding count.
struct Multiples {
  Multiples(const ValueRange& range, double step)
      : first(static_cast<std::int64_t>(std::ceil(double{range.low} / step - 1e-6))),
        last(static_cast<std::int64_t>(std::floor(double{range.high} / step + 1e-6))) {}
  std::int64_t first;
  std::int64_t last;
};

Step finest_step(const ValueRange& range, int most) {
  const double span = double{range.high} - double{range.low};
  const int start = static_cast<int>(std::floor(std::log10(span / most)));
  for (int exponent = start;; ++exponent) {
    for (const double mantissa : {1.0, 2.0, 2.5, 5.0}) {
      const Step step{mantissa, exponent};
      const Multiples multiples(range, step.value());
      if (multiples.last - multiples.first < most) return step;
    }
  }
}

}  // namespace

std::string Ticks::factor() const {
  if (exponent == 0) return {};
  constexpr std::array<std::string_view, 10> kRaised{"\u2070", "\u00B9", "\u00B2", "\u00B3",
                                                     "\u2074", "\u2075", "\u2076", "\u2077",
                                                     "\u2078", "\u2079"};
  std::string text = "\u00D710";
  if (exponent < 0) text += "\u207B";
  for (const char digit : std::to_string(std::abs(exponent)))
    text += kRaised[static_cast<std::size_t>(digit - '0')];
  return text;
}

Ticks ticks_of(const ValueRange& range, int most) {
  Ticks result;
  const double magnitude = std::max(std::abs(double{range.low}), std::abs(double{range.high}));
  if (!std::isfinite(magnitude)) return result;
  result.exponent = exponent_of(magnitude);
  const double unit = std::pow(10.0, result.exponent);
  // Below what float tells apart no step has an end.
  if (!(double{range.high} - double{range.low} > magnitude * 1e-6)) {
    result.ticks.push_back({range.low, number_text(range.low / unit, magnitude == 0 ? 0 : 3)});
    return result;
  }
  const Step step = finest_step(range, std::max(most, 2));
  const Multiples multiples(range, step.value());
  for (std::int64_t i = multiples.first; i <= multiples.last; ++i) {
    const double value = static_cast<double>(i) * step.value();
    result.ticks.push_back({std::clamp<double>(value, range.low, range.high),
                            number_text(value / unit, step.decimals(result.exponent))});
  }
  return result;
}

Ticks decade_ticks(const ValueRange& logarithms) {
  Ticks result;
  const int last = static_cast<int>(std::floor(logarithms.high));
  for (int exponent = static_cast<int>(std::floor(logarithms.low)); exponent <= last; ++exponent) {
    for (const double mantissa : {1.0, 2.0, 5.0}) {
      const Step step{mantissa, exponent};
      const double place = std::log10(step.value());
      if (place >= logarithms.low && place <= logarithms.high)
        result.ticks.push_back({step.value(), number_text(step.value(), step.decimals(0))});
    }
  }
  return result;
}

}  // namespace hydrascope::viz
