#include "app/visualize/steady_maps.h"

#include <algorithm>

namespace hydrascope::app {
namespace {

/// A scene's range is followed within a second or two.
constexpr double kLeastRangeSmoothing = 0.9;

viz::ValueRange mean_range(viz::TemporalMean& mean, const viz::ValueRange& range) {
  const viz::HeatMap kept = mean.add({1, 2, {range.low, range.high}});
  return {kept.values[0], kept.values[1]};
}

}  // namespace

SteadyMaps::SteadyMaps(double smoothing) : smoothing_(smoothing) {}

SteadyMaps::Slot SteadyMaps::new_slot(const InputMap& map) const {
  return {map.of_class.index, viz::TemporalMean(smoothing_), viz::TemporalMean(smoothing_),
          viz::TemporalMean(std::max(smoothing_, kLeastRangeSmoothing))};
}

SteadyMaps::Slot& SteadyMaps::slot_for(std::size_t place, const InputMap& map) {
  if (place == slots_.size()) slots_.push_back(new_slot(map));
  Slot& slot = slots_.at(place);
  const bool of_class = model::explain::entry_of(map.choice.method).of_class;
  if (of_class && slot.class_index != map.of_class.index) slot = new_slot(map);
  return slot;
}

std::vector<ShownMap> SteadyMaps::add(std::vector<InputMap>& maps, const FigureOptions& options) {
  std::vector<ShownMap> shown;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    Slot& slot = slot_for(i, maps[i]);
    maps[i].map = slot.map.add(maps[i].map);
    const viz::HeatMap share = slot.own_share.add({1, 1, {static_cast<float>(maps[i].own_share)}});
    maps[i].own_share = share.values[0];
    ShownMap& map = shown.emplace_back(shown_map(maps[i], options));
    map.range = mean_range(slot.range, map.range);
  }
  return shown;
}

}  // namespace hydrascope::app
