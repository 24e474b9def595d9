#include "model/attention/sparse/window_pattern.h"

#include "model/attention/balanced_intervals.h"
#include "model/attention/sparse/axis_pattern.h"

#include <algorithm>

namespace hydrascope::model {
namespace {

AxisRule window_rule(std::int64_t size, std::int64_t halo, bool shifted) {
  return {[=](std::int64_t position, std::int64_t length) {
    const BalancedIntervals intervals{length, size};
    const std::int64_t t = intervals.holding(position);
    std::int64_t begin = intervals.begin(t);
    std::int64_t end = intervals.begin(t + 1);
    if (shifted && intervals.count() > 1) {
      const auto middle = [&](std::int64_t of) {
        return (intervals.begin(of) + intervals.begin(of + 1)) / 2;
      };
      const bool in_second_half = position >= middle(t);
      begin = in_second_half ? middle(t) : t == 0 ? 0 : middle(t - 1);
      end = !in_second_half ? middle(t) : t + 1 == intervals.count() ? length : middle(t + 1);
    }
    begin = std::max<std::int64_t>(0, begin - halo);
    return AxisKeys{begin, std::min(length, end + halo) - begin};
  }};
}

}  // namespace

std::unique_ptr<KeyPattern> window_pattern(const GridExtent& size, std::int64_t halo,
                                           bool shifted) {
  return std::make_unique<AxisPattern>(window_rule(size.rows, halo, shifted),
                                       window_rule(size.columns, halo, shifted));
}

}  // namespace hydrascope::model
