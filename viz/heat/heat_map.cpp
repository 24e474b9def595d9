#include "viz/heat/heat_map.h"

#include <algorithm>
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

}  // namespace hydrascope::viz
