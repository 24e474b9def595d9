#include "app/visualize/steady_maps.h"

#include <algorithm>

namespace hydrascope::app {
namespace {

/// A scene's range is followed within a second or two.
constexpr double kLeastRangeSmoothing = 0.9;

float blend(float before, float now, double kept) {
  return static_cast<float>(kept * static_cast<double>(before) +
                            (1 - kept) * static_cast<double>(now));
}

}  // namespace

SteadyMaps::SteadyMaps(double smoothing)
    : smoothing_(smoothing), range_smoothing_(std::max(smoothing, kLeastRangeSmoothing)) {}

std::vector<ShownMap> SteadyMaps::add(std::vector<InputMap>& maps, const FigureOptions& options) {
  std::vector<ShownMap> shown;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    if (means_.size() <= i) means_.emplace_back(smoothing_);
    maps[i].map = means_[i].add(maps[i].map);
    ShownMap& map = shown.emplace_back(shown_map(maps[i], options));
    if (ranges_.size() <= i) ranges_.push_back(map.range);
    viz::ValueRange& kept = ranges_[i];
    kept.low = blend(kept.low, map.range.low, range_smoothing_);
    kept.high = blend(kept.high, map.range.high, range_smoothing_);
    map.range = kept;
  }
  return shown;
}

}  // namespace hydrascope::app
