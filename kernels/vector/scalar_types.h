// Scalar types of stored tensors. Arithmetic is always float32.
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

/// IEEE 754 binary16: 5 exponent bits, 10 fraction bits. Stored by GPU kernels only.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  /// Round to nearest, ties to even; overflows to infinity; a NaN stays a NaN (quiet).
  explicit Float16(float value) : bits(round_bits(value)) {}
  explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    const std::uint32_t magnitude = bits & 0x7fffU;
    if (magnitude >= 0x7c00U)  // infinity, NaN
      return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
    // 2^112 moves the exponent's bias from 15 to 127 and normalises subnormals.
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
  }

 private:
  static std::uint16_t round_bits(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>(word >> 16 & 0x8000U);
    const std::uint32_t magnitude = word & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
    if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
    if (magnitude < 0x38800000U) {  // subnormal: the addition rounds at bit 2^-24
      const float sum = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3f000000U));
    }
    const std::uint32_t rebased = magnitude - 0x38000000U;
    return static_cast<std::uint16_t>(sign | ((rebased + 0xfffU + (rebased >> 13 & 1U)) >> 13));
  }
};
static_assert(sizeof(Float16) == 2);

/// The type that a tensor of the inference plan is stored in.
enum class Storage { float32, bfloat16 };

constexpr int size_of(Storage storage) { return storage == Storage::float32 ? 4 : 2; }

}  // namespace hydrascope::kernels
