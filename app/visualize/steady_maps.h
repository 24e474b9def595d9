// Maps of a video: smoothed over its frames, with colours that do not flicker.
#pragma once

#include "app/visualize/heat_figure.h"
#include "app/visualize/input_map.h"
#include "viz/heat/heat_map.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hydrascope::app {

/// What the first and the last colour stand for follows the frames slowly, by an exponential mean
/// that keeps 0.9 per frame, even where the maps themselves are not smoothed; with a `smoothing`
/// above that, so much. Where a map's method depends on the class and the class changes, both start
/// anew: maps of two classes have nothing in common.
class SteadyMaps {
 public:
  explicit SteadyMaps(double smoothing);
  /// The maps of the next frame, always of the same number and order.
  std::vector<ShownMap> add(std::vector<InputMap>& maps, const FigureOptions& options);

 private:
  struct Slot {
    std::int64_t class_index;
    viz::TemporalMean map;
    viz::TemporalMean own_share;
    viz::TemporalMean range;  ///< one row: low, high
  };
  [[nodiscard]] Slot new_slot(const InputMap& map) const;
  Slot& slot_for(std::size_t place, const InputMap& map);

  double smoothing_;
  std::vector<Slot> slots_;  // of the maps, in their order
};

}  // namespace hydrascope::app
