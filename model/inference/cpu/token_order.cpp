#include "model/inference/cpu/token_order.h"

#include "model/attention/balanced_intervals.h"

namespace hydrascope::model::inference {

TokenOrder token_order(const TokenGrid& grid, const GridExtent& window) {
  TokenOrder order;
  std::int64_t token = 0;
  const auto add_run = [&](std::int64_t patch, std::int64_t count, bool is_new) {
    // Rows of a window as wide as the picture continue the row before.
    if (!is_new && order.runs.back().patch + order.runs.back().count == patch)
      order.runs.back().count += count;
    else
      order.runs.push_back({token, patch, count});
    token += count;
  };
  const BalancedIntervals rows{grid.rows, window.rows};
  const BalancedIntervals columns{grid.columns, window.columns};
  for (std::int64_t r = 0; r < rows.count(); ++r) {
    for (std::int64_t c = 0; c < columns.count(); ++c) {
      order.windows.push_back(token);
      const std::int64_t first = columns.begin(c);
      for (std::int64_t row = rows.begin(r); row < rows.begin(r + 1); ++row)
        add_run(row * grid.columns + first, columns.begin(c + 1) - first,
                /*is_new=*/row == rows.begin(r));
    }
  }
  if (grid.num_overview() > 0) {
    order.windows.push_back(token);
    add_run(grid.num_patches(), grid.num_overview(), /*is_new=*/true);
  }
  order.windows.push_back(token);
  return order;
}

}  // namespace hydrascope::model::inference
