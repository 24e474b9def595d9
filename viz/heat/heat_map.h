// A map over a grid of cells (the patches of a picture), and what is taken from it before it is
// drawn.
#pragma once

#include "viz/scale/ticks.h"

#include <cstdint>
#include <vector>

namespace hydrascope::viz {

struct HeatMap {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> values;  ///< (rows, columns), row-major; NaN: nothing is known
};

enum class Sign { both, positive, absolute };
/// `positive` raises what is below 0 to 0, `absolute` takes magnitudes.
HeatMap with_sign(HeatMap map, Sign sign);

/// The percentage of a map's heat that figures and pages leave beyond the end of the colours.
inline constexpr double kOutlierPercent = 30;
/// Smallest and largest value; with `symmetric` -m .. m, m the largest magnitude. The farthest cells
/// lie beyond as long as they hold no more than `outlier_percent` of the heat, which is the sum of
/// distances from the median, or from 0 with `symmetric`: a small object keeps its colours, as a
/// share of the cells would not let it. NaN is left out; a map without a number, or of one value, has an empty range, which `draw_heat`
/// draws.
ValueRange range_of(const HeatMap& map, bool symmetric, double outlier_percent);

/// 0 at `range.low` and 1 at `range.high`, and beyond them; 0 for every number of an empty range. NaN stays.
HeatMap shares_of(HeatMap map, const ValueRange& range);

/// How many times as fine the grid of a map has to be that is drawn without corners: 5, 3 of a fine map.
std::int64_t fineness(std::int64_t rows, std::int64_t columns);
/// Shares on a grid that is `factor` times as fine, by Keys' cubic convolution (1981, doi
/// 10.1109/TASSP.1981.1163711; a = -1/2): the middle of a cell keeps its share if the factor is odd, and a
/// single hot cell is round. Within 0..1; the cells of a NaN stay NaN and count for no other.
HeatMap smoothed(const HeatMap& shares, std::int64_t factor);

}  // namespace hydrascope::viz
