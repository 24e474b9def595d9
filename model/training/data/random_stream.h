// Random numbers that depend on their purpose and not on the drawing thread or time: a picture's
// augmentation is the same whatever thread, rank or restart prepares it.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace hydrascope::model::training {

/// SplitMix64 (Steele, Lea and Flood 2014) from a key mixed out of `parts` (seed, epoch, position).
/// Meets UniformRandomBitGenerator; the distributions below give the same numbers on every
/// platform, which the standard library's do not.
class RandomStream {
 public:
  using result_type = std::uint64_t;
  explicit RandomStream(std::initializer_list<std::uint64_t> parts) noexcept;

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()() noexcept;

  /// [0, 1), 53 bits.
  double uniform() noexcept;
  double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }
  /// 0 .. count - 1, unbiased. `count` > 0.
  std::uint64_t below(std::uint64_t count) noexcept;
  /// Mean 0, standard deviation 1 (Box-Muller, one value per call).
  double normal() noexcept;
  /// Gamma(shape, 1) by Marsaglia and Tsang; shape > 0. beta(a, a) follows from two of them.
  double gamma(double shape) noexcept;
  double beta(double a, double b) noexcept;
  bool chance(double probability) noexcept { return uniform() < probability; }

 private:
  std::uint64_t state_;
};

}  // namespace hydrascope::model::training
