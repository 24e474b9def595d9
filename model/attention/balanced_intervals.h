// An axis of the patch grid cut into as few intervals as it takes.
#pragma once

#include <cstdint>

namespace hydrascope::model {

/// ceil(length / size) intervals with borders floor(t length / count): none is above `size`, and
/// their sizes differ by one at most.
struct BalancedIntervals {
  std::int64_t length;
  std::int64_t size;

  [[nodiscard]] std::int64_t count() const { return (length + size - 1) / size; }
  /// The first position of interval t; t = count() gives the end of the last one.
  [[nodiscard]] std::int64_t begin(std::int64_t t) const { return t * length / count(); }
  /// The interval that holds a position.
  [[nodiscard]] std::int64_t holding(std::int64_t position) const {
    // The last t with t length < (position + 1) count.
    return ((position + 1) * count() - 1) / length;
  }
};

}  // namespace hydrascope::model
