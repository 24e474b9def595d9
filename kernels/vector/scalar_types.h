// Scalar types that kernels store tensors in. Arithmetic is always float32; these are storage.
#pragma once

#include <bit>
#include <cstdint>

namespace hydrascope::kernels {

/// The upper half of a float32: 8 exponent bits, 7 fraction bits.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// Round to nearest, ties to even; a NaN stays a NaN (quiet).
  explicit BFloat16(float value) : bits(round_bits(value)) {}
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }

 private:
  static std::uint16_t round_bits(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffU) > 0x7f800000U)
      return static_cast<std::uint16_t>((word >> 16) | 0x0040U);
    return static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
  }
};
static_assert(sizeof(BFloat16) == 2);

/// What a tensor of the inference plan is stored in.
enum class Storage { float32, bfloat16 };

constexpr int size_of(Storage storage) { return storage == Storage::float32 ? 4 : 2; }

}  // namespace hydrascope::kernels
