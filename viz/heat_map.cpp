#include "viz/heat_map.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>

namespace hydrascope::viz {
namespace {

/// The finite values, by magnitude where asked.
std::vector<float> numbers(const HeatMap& map, bool magnitudes) {
  std::vector<float> found;
  found.reserve(map.values.size());
  for (const float value : map.values)
    if (std::isfinite(value)) found.push_back(magnitudes ? std::abs(value) : value);
  return found;
}

float nth_smallest(std::vector<float>& values, std::size_t n) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(n);
  std::nth_element(values.begin(), at, values.end());
  return *at;
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
  std::vector<float> values = numbers(map, symmetric);
  if (values.empty()) return {};
  const std::size_t last = values.size() - 1;
  const double beyond = std::clamp(outlier_percent, 0.0, 100.0) / 100.0 *
                        static_cast<double>(values.size()) / (symmetric ? 1 : 2);
  // At least one value is left.
  const std::size_t dropped =
      std::min(static_cast<std::size_t>(beyond), symmetric ? last : last / 2);
  const float high = nth_smallest(values, last - dropped);
  return {symmetric ? -high : nth_smallest(values, dropped), high};
}

std::vector<std::uint8_t> smallest_set(const HeatMap& map, double mass) {
  std::vector<std::size_t> positive;
  for (std::size_t i = 0; i < map.values.size(); ++i)
    if (map.values[i] > 0 && std::isfinite(map.values[i])) positive.push_back(i);
  std::ranges::stable_sort(positive, std::greater(), [&](std::size_t i) { return map.values[i]; });
  const auto add = [&](double sum, std::size_t i) { return sum + double{map.values[i]}; };
  // Added in the order of the search below, so that a mass of 1 is reached exactly.
  const double wanted = mass * std::accumulate(positive.begin(), positive.end(), 0.0, add);

  std::vector<std::uint8_t> set(map.values.size(), 0);
  double held = 0;
  for (const std::size_t cell : positive) {
    if (held >= wanted) break;
    set[cell] = 1;
    held = add(held, cell);
  }
  return set;
}

HeatMap TemporalMean::add(const HeatMap& map) {
  if (map.rows != kept_.rows || map.columns != kept_.columns ||
      map.values.size() != kept_.values.size()) {
    kept_ = map;
    return kept_;
  }
  for (std::size_t i = 0; i < map.values.size(); ++i) {
    float& kept = kept_.values[i];
    const float value = map.values[i];
    if (std::isnan(value)) continue;
    kept = std::isnan(kept)
               ? value
               : static_cast<float>(smoothing_ * double{kept} + (1 - smoothing_) * double{value});
  }
  return kept_;
}

}  // namespace hydrascope::viz
