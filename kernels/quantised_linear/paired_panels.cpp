#include "kernels/quantised_linear/paired_panels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace hydrascope::kernels::quantised_linear {
namespace {

constexpr int kLargestSum = 128;
constexpr auto kDepth = static_cast<std::size_t>(kPairedDepth);
constexpr auto kColumns = static_cast<std::size_t>(kPairedColumns);

using Block = std::array<std::array<std::int8_t, kColumns>, kDepth>;

/// A weight's part above what a pair may add up to; the pair has it in its first weight.
int excess_of(int first, int second) {
  return first + second - std::clamp(first + second, -kLargestSum, kLargestSum);
}

bool fit(const Block& block, std::size_t i, std::size_t j) {
  for (std::size_t column = 0; column < kColumns; ++column)
    if (excess_of(block[i][column], block[j][column]) != 0) return false;
  return true;
}

/// Pairs of the block's k that fit each other, as many as a search of bounded length finds.
class Pairing {
 public:
  explicit Pairing(const Block& block) {
    for (std::size_t i = 0; i < kDepth; ++i)
      for (std::size_t j = i + 1; j < kDepth; ++j)
        if (fit(block, i, j)) {
          fitting_[i] |= 1U << j;
          fitting_[j] |= 1U << i;
        }
    search((1U << kDepth) - 1, 0);
  }

  /// Every k once; places 2 p and 2 p + 1 are a pair, and those that found no partner come last.
  [[nodiscard]] std::array<std::uint8_t, kDepth> order() const {
    std::array<std::uint8_t, kDepth> order{};
    unsigned left = (1U << kDepth) - 1;
    for (std::size_t at = 0; at < kDepth; ++at) {
      const std::size_t k = at / 2 < num_best_ ? best_[at / 2][at % 2]
                                               : static_cast<std::size_t>(std::countr_zero(left));
      order[at] = static_cast<std::uint8_t>(k);
      left &= ~(1U << k);
    }
    return order;
  }

 private:
  /// Pairs the k of `left`, the one with the fewest partners first. Whether all found one.
  bool search(unsigned left, std::size_t count) {
    if (count > num_best_) {
      num_best_ = count;
      best_ = pairs_;
    }
    if (left == 0) return true;
    if (--tries_ < 0) return false;
    std::size_t chosen = kDepth;
    int fewest = static_cast<int>(kDepth) + 1;
    for (unsigned rest = left; rest != 0; rest &= rest - 1) {
      const auto k = static_cast<std::size_t>(std::countr_zero(rest));
      const int partners = std::popcount(fitting_[k] & left);
      if (partners > 0 && partners < fewest) {
        fewest = partners;
        chosen = k;
      }
    }
    if (chosen == kDepth) return false;
    for (unsigned rest = fitting_[chosen] & left; rest != 0; rest &= rest - 1) {
      const auto partner = static_cast<std::size_t>(std::countr_zero(rest));
      pairs_[count] = {static_cast<std::uint8_t>(chosen), static_cast<std::uint8_t>(partner)};
      if (search(left & ~(1U << chosen) & ~(1U << partner), count + 1)) return true;
    }
    return false;
  }

  std::array<unsigned, kDepth> fitting_{};
  std::array<std::array<std::uint8_t, 2>, kDepth / 2> pairs_{};
  std::array<std::array<std::uint8_t, 2>, kDepth / 2> best_{};
  std::size_t num_best_ = 0;
  int tries_ = 64;
};

}  // namespace

PairedPanels::PairedPanels(
    std::int64_t depth, std::int64_t columns,
    const std::function<std::int8_t(std::int64_t k, std::int64_t column)>& weight)
    : depth_(depth), values_(static_cast<std::size_t>(depth * columns)) {
  std::int8_t* value = values_.data();
  order_.reserve(static_cast<std::size_t>(depth * columns / kPairedColumns));
  for (std::int64_t first = 0; first < columns; first += kPairedColumns) {
    for (std::int64_t k = 0; k < depth; k += kPairedDepth) {
      Block block;
      for (std::size_t i = 0; i < kDepth; ++i)
        for (std::size_t column = 0; column < kColumns; ++column)
          block[i][column] =
              weight(k + static_cast<std::int64_t>(i), first + static_cast<std::int64_t>(column));
      const std::array<std::uint8_t, kDepth> order = Pairing(block).order();
      order_.insert(order_.end(), order.begin(), order.end());
      for (std::size_t step = 0; step < kDepth; step += 4) {
        std::array<std::int8_t, 4 * kColumns> excess{};
        for (std::size_t column = 0; column < kColumns; ++column)
          for (std::size_t i = step; i < step + 4; i += 2) {
            const int one = block[order[i]][column];
            const int other = block[order[i + 1]][column];
            const int above = excess_of(one, other);
            excess[4 * column + i - step] = static_cast<std::int8_t>(above);
            *value++ = static_cast<std::int8_t>(one - above);
            *value++ = static_cast<std::int8_t>(other);
          }
        if (std::ranges::all_of(excess, [](std::int8_t above) { return above == 0; })) continue;
        excess_steps_.push_back(
            static_cast<std::int32_t>(k / 4 + static_cast<std::int64_t>(step / 4)));
        excess_.insert(excess_.end(), excess.begin(), excess.end());
      }
    }
    excess_begin_.push_back(std::ssize(excess_steps_));
  }
}

PairedPanels::Group PairedPanels::group(std::int64_t index) const {
  const std::int64_t begin = excess_begin_[static_cast<std::size_t>(index)];
  return {values_.data() + index * depth_ * kPairedColumns, order_.data() + index * depth_,
          excess_steps_.data() + begin, excess_.data() + begin * 4 * kPairedColumns,
          excess_begin_[static_cast<std::size_t>(index) + 1] - begin};
}

}  // namespace hydrascope::kernels::quantised_linear
