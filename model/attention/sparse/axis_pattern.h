// Patterns that are a product: a patch sees the patches of some rows and some columns, and which
// rows depends on its own row alone.
#pragma once

#include "model/attention/sparse/sparse_softmax.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace hydrascope::model {

/// Positions first, first + step, ... of an axis; the step is the rule's.
struct AxisKeys {
  std::int64_t first;
  std::int64_t count;
  friend bool operator==(const AxisKeys&, const AxisKeys&) = default;
};

/// The positions that a position sees along one axis.
struct AxisRule {
  std::function<AxisKeys(std::int64_t position, std::int64_t length)> keys;
  /// Step of the keys: a position sees positions that are a multiple of it away.
  std::int64_t step = 1;
  /// Positions are computed together while they see the same, and up to this number otherwise: they
  /// then read keys that some of them do not see.
  std::int64_t run = 1;
};

class AxisPattern final : public KeyPattern {
 public:
  AxisPattern(AxisRule rows, AxisRule columns);
  [[nodiscard]] at::Tensor rows(const TokenGrid& grid, std::int64_t first,
                                std::int64_t count) const override;
  [[nodiscard]] std::vector<std::vector<KeyGroups>> passes(const TokenGrid& grid) const override;
  [[nodiscard]] double num_pairs(const TokenGrid& grid) const override;

 private:
  AxisRule rows_;
  AxisRule columns_;
};

}  // namespace hydrascope::model
