// Maps of a video: smoothed over its frames, with colours that do not flicker. Free of LibTorch.
#pragma once

#include "app/visualize/heat_figure.h"
#include "app/visualize/input_map.h"
#include "viz/heat_map.h"

#include <deque>
#include <vector>

namespace hydrascope::app {

/// What the first and the last colour stand for follows the frames slowly, by an exponential mean
/// with `range_smoothing`, even where the maps themselves are not smoothed.
class SteadyMaps {
 public:
  explicit SteadyMaps(double smoothing);
  /// The maps of the next frame, always of the same number and order.
  std::vector<ShownMap> add(std::vector<InputMap>& maps, const FigureOptions& options);

 private:
  double smoothing_;
  double range_smoothing_;
  std::deque<viz::TemporalMean> means_;
  std::vector<viz::ValueRange> ranges_;
};

}  // namespace hydrascope::app
