#include "viz/heat/heat_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <numeric>
#include <span>

namespace hydrascope::viz {
namespace {

std::vector<float> finite_values(const HeatMap& map) {
  std::vector<float> found;
  std::ranges::copy_if(map.values, std::back_inserter(found),
                       [](float value) { return std::isfinite(value); });
  return found;
}

}  // namespace

HeatMap with_sign(HeatMap map, Sign sign) {
  for (float& value : map.values) {
    if (sign == Sign::positive && value < 0) value = 0;  // a NaN stays
    if (sign == Sign::absolute) value = std::abs(value);
  }
  return map;
}

ValueRange range_of(const HeatMap& map, bool symmetric, double outlier_percent) {
  std::vector<float> values = finite_values(map);
  if (values.empty()) return {};
  std::ranges::sort(values);
  const double centre = symmetric ? 0 : double{values[values.size() / 2]};
  const auto distance = [&](float value) { return std::abs(double{value} - centre); };
  std::ranges::stable_sort(values, std::greater(), distance);
  const auto add = [&](double sum, float value) { return sum + distance(value); };
  const double most = std::clamp(outlier_percent, 0.0, 100.0) / 100.0 *
                      std::accumulate(values.begin(), values.end(), 0.0, add);
  std::size_t dropped = 0;
  double beyond = 0;
  while (dropped + 1 < values.size()) {
    beyond = add(beyond, values[dropped]);
    if (beyond > most) break;
    ++dropped;
  }
  const auto [low, high] = std::ranges::minmax(std::span(values).subspan(dropped));
  if (!symmetric) return {low, high};
  const float reach = std::max(std::abs(low), std::abs(high));
  return {-reach, reach};
}

HeatMap shares_of(HeatMap map, const ValueRange& range) {
  const bool is_empty = !(range.high > range.low);
  for (float& value : map.values)
    if (!std::isnan(value))
      value = is_empty ? 0 : std::clamp((value - range.low) / (range.high - range.low), 0.0F, 1.0F);
  return map;
}

std::int64_t fineness(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kCoarse = 64;
  return std::max(rows, columns) > kCoarse ? 3 : 5;
}

namespace {

/// Weights of four cells, the first `first` cells from the one that a place lies in.
struct CubicTaps {
  std::int64_t first;
  std::array<float, 4> weights;
};

/// For a place `from_middle` cells from its cell's middle.
CubicTaps cubic_taps(double from_middle) {
  const double far = std::floor(from_middle);
  const double a = from_middle - far;
  const double b = a * a;
  const double c = b * a;
  return {static_cast<std::int64_t>(far) - 1,
          {static_cast<float>((2 * b - a - c) / 2), static_cast<float>((2 - 5 * b + 3 * c) / 2),
           static_cast<float>((a + 4 * b - 3 * c) / 2), static_cast<float>((c - b) / 2)}};
}

/// `map` with `factor` times as many columns, and rows and columns exchanged.
HeatMap finer_transposed(const HeatMap& map, std::int64_t factor) {
  HeatMap fine{map.columns * factor, map.rows, {}};
  fine.values.reserve(static_cast<std::size_t>(fine.rows * fine.columns));
  for (std::int64_t place = 0; place < fine.rows; ++place) {
    const std::int64_t cell = place / factor;
    const auto part = static_cast<double>(place % factor);
    const auto [first, weights] = cubic_taps((part + 0.5) / static_cast<double>(factor) - 0.5);
    for (std::int64_t row = 0; row < map.rows; ++row) {
      const float* line = &map.values[static_cast<std::size_t>(row * map.columns)];
      float sum = 0;
      float held = 0;
      for (std::int64_t tap = 0; tap < 4; ++tap) {
        const float value = line[std::clamp<std::int64_t>(cell + first + tap, 0, map.columns - 1)];
        if (std::isnan(value)) continue;
        sum += weights[static_cast<std::size_t>(tap)] * value;
        held += weights[static_cast<std::size_t>(tap)];
      }
      fine.values.push_back(std::isnan(line[cell]) ? line[cell]
                                                   : std::clamp(sum / held, 0.0F, 1.0F));
    }
  }
  return fine;
}

}  // namespace

HeatMap smoothed(const HeatMap& shares, std::int64_t factor) {
  return finer_transposed(finer_transposed(shares, factor), factor);
}

}  // namespace hydrascope::viz
