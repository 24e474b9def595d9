// Weights and inputs that C++ and Python make alike from names, shapes and a seed, so that goldens
// of whole models need no stored weights. The Python twin is scripts/make/deterministic_weights.py; both
// follow tests/data/goldens/README.md and yield the same bits.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hydrascope::testing {

/// FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv).
constexpr std::uint64_t fnv1a64(std::string_view text) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const char letter : text) {
    value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  }
  return value;
}

/// One step of splitmix64 from `state` (Steele, Lea, Flood 2014, doi 10.1145/2660193.2660195).
constexpr std::uint64_t splitmix64(std::uint64_t state) {
  std::uint64_t x = state + 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

struct OffsetAndScale {
  float offset;
  float scale;
};

/// The factor that keeps activations of order one, by the last component of the tensor's name.
inline OffsetAndScale offset_and_scale(std::string_view name, std::span<const std::int64_t> shape) {
  const std::string_view leaf = name.substr(name.rfind('.') + 1);
  if (name == "input") return {0.0F, 2.0F};
  if (leaf == "gamma") return {0.5F, 0.25F};
  if (leaf == "bias") return {0.0F, 0.1F};
  if (leaf != "weight") return {0.0F, 0.5F};
  if (shape.size() == 1) return {1.0F, 0.1F};
  std::int64_t fan_in = 1;
  for (const std::int64_t size : shape.subspan(1)) fan_in *= size;
  return {0.0F, static_cast<float>(std::sqrt(3.0 / static_cast<double>(fan_in)))};
}

/// Fills the row-major tensor `name` of `shape` (rank at least 1). Throws std::invalid_argument
/// when `out` does not hold exactly that many elements.
///
/// scale and u have 24 bits each, so their product is exact in double: fusing the multiplication
/// and the addition, which a compiler may do, cannot change the result.
inline void fill_deterministic(std::string_view name, std::span<const std::int64_t> shape,
                               std::span<float> out, std::uint64_t seed) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  if (shape.empty() || count != static_cast<std::int64_t>(out.size())) {
    throw std::invalid_argument("fill_deterministic: shape and size of " + std::string(name));
  }
  const auto [offset, scale] = offset_and_scale(name, shape);
  const std::uint64_t stream = seed ^ fnv1a64(name);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double u = static_cast<double>(splitmix64(stream + i) >> 40) * 0x1p-23 - 1.0;
    out[i] = static_cast<float>(double{offset} + double{scale} * u);
  }
}

}  // namespace hydrascope::testing
