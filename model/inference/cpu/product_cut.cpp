#include "model/inference/cpu/product_cut.h"

#include "kernels/device/thread_team.h"
#include "model/inference/cpu/tile_shape.h"

#include <algorithm>
#include <limits>

namespace hydrascope::model::inference {

using kernels::device::Share;
using kernels::device::share_of;
using kernels::linear::kPanelColumns;

kernels::linear::Outputs ProductCut::Part::outputs(std::int64_t before) const {
  const std::int64_t first = std::max<std::int64_t>(0, first_panel - before);
  const std::int64_t end = std::max<std::int64_t>(0, first_panel + panels - before);
  return {first * kPanelColumns, end * kPanelColumns};
}

ProductCut::ProductCut(std::int64_t rows, std::int64_t panels, int threads, std::int64_t unit)
    : rows_(rows), panels_(panels), unit_(unit) {
  if (rows <= 0 || panels <= 0) return;
  const std::int64_t units = divide_up(rows, unit);
  const std::int64_t most_units = std::max<std::int64_t>(1, kMostPartRows / unit);
  time_ = std::numeric_limits<double>::infinity();
  // More parts than that only cost more readings of the weights.
  const std::int64_t fewest = divide_up(units, most_units);
  const std::int64_t most = std::min(units, std::max<std::int64_t>(fewest, 2 * threads));
  for (std::int64_t row_parts = fewest; row_parts <= most; ++row_parts) {
    const auto of_rows = static_cast<double>(divide_up(units, row_parts) * unit + kWeightRows);
    for (std::int64_t panel_parts = 1; panel_parts <= panels; ++panel_parts) {
      const std::int64_t rounds = divide_up(row_parts * panel_parts, threads);
      const double time = static_cast<double>(rounds * divide_up(panels, panel_parts)) * of_rows;
      if (time >= time_) continue;
      time_ = time;
      row_parts_ = row_parts;
      panel_parts_ = panel_parts;
    }
  }
}

ProductCut::Part ProductCut::part(std::int64_t index) const {
  const Share units = share_of(divide_up(rows_, unit_), row_parts_, index % row_parts_);
  const Share panels = share_of(panels_, panel_parts_, index / row_parts_);
  const std::int64_t first = units.first * unit_;
  return {first, std::min(rows_, units.end * unit_) - first, panels.first,
          panels.end - panels.first};
}

std::int64_t head_groups(std::int64_t tiles, std::int64_t heads, int threads) {
  std::int64_t best = 1;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t groups = 1; groups <= heads; ++groups) {
    const std::int64_t time = divide_up(tiles * groups, threads) * divide_up(heads, groups);
    if (time >= least) continue;
    least = time;
    best = groups;
  }
  return best;
}

}  // namespace hydrascope::model::inference
