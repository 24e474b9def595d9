// Draws that depend on their seed alone, on every machine and at every size of a picture.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace hydrascope::model {

/// SplitMix64 (Steele, Lea and Flood 2014): the next state's mixed bits.
inline std::uint64_t split_mix(std::uint64_t state) {
  state += 0x9e3779b97f4a7c15U;
  state = (state ^ (state >> 30U)) * 0xbf58476d1ce4e5b9U;
  state = (state ^ (state >> 27U)) * 0x94d049bb133111ebU;
  return state ^ (state >> 31U);
}

/// A seed of its own for each part below a seed: a layer, then a layer's parts.
inline std::uint64_t seed_below(std::uint64_t seed, std::int64_t index) {
  return split_mix(split_mix(seed) ^ static_cast<std::uint64_t>(index));
}

/// A standard normal number (Box and Muller 1958).
inline double normal_number(std::uint64_t seed) {
  const auto uniform = [](std::uint64_t bits) {  // in (0, 1]
    return (static_cast<double>(bits >> 11U) + 1) * 0x1p-53;
  };
  const std::uint64_t first = split_mix(seed);
  return std::sqrt(-2 * std::log(uniform(first))) *
         std::cos(2 * std::numbers::pi * uniform(split_mix(first)));
}

}  // namespace hydrascope::model
