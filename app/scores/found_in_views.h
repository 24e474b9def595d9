// The classes that several overlapping views of a picture agree on.
#pragma once

#include "app/results/classify_record.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hydrascope::app {

/// A class that a view and a neighbour of that view both see.
struct FoundInViews {
  std::int64_t index = 0;  ///< of the class
  std::size_t view = 0;    ///< the one of both that is surer
  double probability = 0;  ///< in that view
  double support = 0;      ///< in the neighbour: the surest other view that overlaps it
};

/// The classes that views agree on, the surest first, at most one a place. `probabilities` are of all
/// classes, view by view; `places` are the views' boxes. Neighbours are views that share at least a fifth
/// of the smaller one: tiles beside each other, and a tile with tiles of another scale. A class is found
/// in a view where the geometric mean of its probability there and of the neighbours' largest is at least
/// `kLeastAgreement`; a second class in a view or in its neighbours is not found. Peaks of texture in
/// single tiles have no such neighbour.
inline constexpr double kLeastAgreement = 0.5;
std::vector<FoundInViews> found_in_views(std::span<const std::vector<float>> probabilities,
                                         std::span<const Box> places);

}  // namespace hydrascope::app
