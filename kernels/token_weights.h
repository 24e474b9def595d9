// The weights of tokens in a sum over them.
#pragma once

#include <cstdint>

namespace hydrascope::kernels {

/// w_t: one weight for the leading `num_prefix` tokens (class token, registers), one for the others.
struct TokenWeights {
  std::int64_t num_prefix = 0;
  double prefix = 1;
  double patch = 1;

  [[nodiscard]] constexpr double of(std::int64_t token) const {
    return token < num_prefix ? prefix : patch;
  }
  /// The same weights, counted from token `first` on.
  [[nodiscard]] constexpr TokenWeights from(std::int64_t first) const {
    return {num_prefix - first, prefix, patch};
  }
  /// Whether every token weighs 1.
  [[nodiscard]] constexpr bool all_one() const {
    return (num_prefix <= 0 || prefix == 1) && patch == 1;
  }
};

}  // namespace hydrascope::kernels
