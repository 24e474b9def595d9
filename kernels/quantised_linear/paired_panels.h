// The form of a quantised weight for vpmaddubsw, which adds two products of bytes in an int16: a sum of
// two products with x in 0 .. 255 fits if the two weights add up to -128 .. 128. Any weights do after
// two steps, so that integer sums stay exact:
//   order    in each 16 k the pairs are chosen anew for every 16 outputs, so that no output has a pair
//            too large: weights of trained layers nearly always have such an order (3 % of the pairs of
//            neighbours are too large). Rows of x are ordered in the same way, by a byte shuffle.
//   excess   a pair that is too large all the same leaves its excess over 128 to a second product.
// Test: tests/kernels/quantised_linear/quantised_linear_test.cpp.
#pragma once

#include "kernels/vector/aligned_buffer.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace hydrascope::kernels::quantised_linear {

inline constexpr std::int64_t kPairedColumns = 16;  ///< outputs that share an order
inline constexpr std::int64_t kPairedDepth = 16;    ///< k that are ordered among themselves

class PairedPanels {
 public:
  PairedPanels() = default;
  /// values (depth, columns), both multiples of 16; weight(k, column) in -127 .. 127.
  PairedPanels(std::int64_t depth, std::int64_t columns,
               const std::function<std::int8_t(std::int64_t k, std::int64_t column)>& weight);

  /// 16 outputs. A step is four k.
  struct Group {
    const std::int8_t* values;         ///< [depth / 4][16][4]
    const std::uint8_t* order;         ///< (depth): x's place among its 16
    const std::int32_t* excess_steps;  ///< (num_excess), ascending: the steps that have an excess
    const std::int8_t* excess;         ///< [num_excess][16][4]
    std::int64_t num_excess;
  };
  [[nodiscard]] Group group(std::int64_t index) const;
  [[nodiscard]] bool empty() const noexcept { return depth_ == 0; }
  /// All groups' steps that have an excess.
  [[nodiscard]] std::int64_t num_excess() const { return std::ssize(excess_steps_); }

 private:
  std::int64_t depth_ = 0;
  AlignedBuffer<std::int8_t> values_;  // a step is a line of the cache
  std::vector<std::uint8_t> order_;
  std::vector<std::int32_t> excess_steps_;
  std::vector<std::int8_t> excess_;
  std::vector<std::int64_t> excess_begin_{0};  ///< of each group, and the end
};

}  // namespace hydrascope::kernels::quantised_linear
