#include "kernels/convert/convert.h"

#include "tests/kernels/convert/convert_reference.h"
#include "tests/kernels/kernel_case.h"

#include <gtest/gtest.h>

#include <bit>

namespace hydrascope::kernels::test {
namespace convert_test {

using convert::Format;

Format format_of(BFloat16) { return convert::kBFloat16; }
Format format_of(std::uint16_t) { return convert::kFloat16; }
std::uint16_t bits_of(BFloat16 half) { return half.bits; }
std::uint16_t bits_of(std::uint16_t half) { return half; }
BFloat16 from_bits(std::uint16_t bits, BFloat16 half) {
  half.bits = bits;
  return half;
}
std::uint16_t from_bits(std::uint16_t bits, std::uint16_t) { return bits; }
void narrow(const float* from, BFloat16* to, std::size_t count) {
  convert::to_bfloat16(from, to, static_cast<std::int64_t>(count));
}
void narrow(const float* from, std::uint16_t* to, std::size_t count) {
  convert::to_float16(from, to, static_cast<std::int64_t>(count));
}
template <class Half>
void widen(const Half* from, float* to, std::size_t count) {
  convert::to_float(from, to, static_cast<std::int64_t>(count));
}

/// Also tells zeros of either sign apart. Any NaN equals any other.
bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

template <class Half>
std::vector<Half> every_pattern() {
  std::vector<Half> all(65536);
  for (std::size_t bits = 0; bits < all.size(); ++bits)
    all[bits] = from_bits(static_cast<std::uint16_t>(bits), Half());
  return all;
}

template <class Half>
class ConvertKernel : public testing::Test {};
using Halves = testing::Types<BFloat16, std::uint16_t>;
TYPED_TEST_SUITE(ConvertKernel, Halves);

TYPED_TEST(ConvertKernel, EveryPatternWidensExactlyAndComesBack) {
  const std::vector<TypeParam> all = every_pattern<TypeParam>();
  std::vector<float> wide(all.size());
  std::vector<TypeParam> back(all.size());
  for_each_instruction_set([&](const std::string& name) {
    SCOPED_TRACE(name);
    widen(all.data(), wide.data(), all.size());
    narrow(wide.data(), back.data(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double value = convert::value_reference(bits_of(all[i]), format_of(TypeParam()));
      ASSERT_TRUE(same(wide[i], value)) << std::hex << i << ": " << wide[i];
      if (std::isnan(value)) {  // quiet now, the rest as it was
        const unsigned quiet = 1U << (format_of(TypeParam()).fraction_bits - 1);
        ASSERT_EQ(bits_of(back[i]), i | quiet);
      } else {
        ASSERT_EQ(bits_of(back[i]), i);
      }
    }
  });
}

/// Values, the midpoints to their neighbours, and the float32 next to each on both sides.
template <class Half>
std::vector<float> values_and_midpoints() {
  std::vector<float> result;
  const Format format = format_of(Half());
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const double value = convert::value_reference(static_cast<std::uint16_t>(bits), format);
    if (!std::isfinite(value)) continue;
    double next = convert::value_reference(static_cast<std::uint16_t>(bits + 1), format);
    // Behind the largest value lies the one that would follow if the exponent went on.
    if (!std::isfinite(next))
      next = std::copysign(std::ldexp(1.0, format.exponent_bias + 1), value);
    for (const double at : {value, (value + next) / 2}) {
      const auto x = static_cast<float>(at);
      result.push_back(x);
      result.push_back(std::nextafter(x, -std::numeric_limits<float>::infinity()));
      result.push_back(std::nextafter(x, std::numeric_limits<float>::infinity()));
    }
  }
  for (const float x : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max(),
                        std::numeric_limits<float>::min(), 65504.0F, 65520.0F, 65536.0F, 1e6F,
                        std::numeric_limits<float>::denorm_min(), 1e-40F, 0.0F}) {
    result.push_back(x);
    result.push_back(-x);
  }
  return result;
}

TYPED_TEST(ConvertKernel, RoundsToNearestEvenAtEveryMidpoint) {
  const std::vector<float> values = values_and_midpoints<TypeParam>();
  std::vector<TypeParam> found(values.size());
  const Format format = format_of(TypeParam());
  std::vector<double> expected;
  for (const float x : values)
    expected.push_back(convert::nearest_reference(static_cast<double>(x), format));
  for_each_instruction_set([&](const std::string& name) {
    SCOPED_TRACE(name);
    narrow(values.data(), found.data(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = convert::value_reference(bits_of(found[i]), format);
      ASSERT_TRUE(same(value, expected[i]))
          << std::hexfloat << values[i] << ": found " << value << ", expected " << expected[i];
    }
  });
}

TYPED_TEST(ConvertKernel, NanStaysQuietWithItsSignAndTheSameBitsEverywhere) {
  std::vector<float> values;
  for (const std::uint32_t word : {0x7f800001U, 0x7f801fffU, 0x7fa00000U, 0x7fc00000U, 0x7fffffffU,
                                   0xff800001U, 0xffc12345U, 0xffffffffU})
    values.push_back(std::bit_cast<float>(word));
  // One lane of a vector may take another path than the vector: fill several.
  for (int i = 0; i < 3; ++i) values.insert(values.end(), values.begin(), values.begin() + 8);
  std::vector<TypeParam> found(values.size());
  for_each_instruction_set([&](const std::string& name) {
    SCOPED_TRACE(name);
    narrow(values.data(), found.data(), values.size());
    const int shift = std::is_same_v<TypeParam, BFloat16> ? 16 : 13;
    const unsigned fraction = (1U << format_of(TypeParam()).fraction_bits) - 1;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto word = std::bit_cast<std::uint32_t>(values[i]);
      const unsigned expected = (word >> 16 & 0x8000U) | (0x7fffU & ~fraction) |
                                (fraction + 1) >> 1 | (word >> shift & fraction);
      ASSERT_EQ(bits_of(found[i]), expected) << std::hex << word;
    }
  });
}

TYPED_TEST(ConvertKernel, TouchesNothingOutsideForAnyCount) {
  for_each_instruction_set([](const std::string& name) {
    SCOPED_TRACE(name);
    for (std::size_t count = 0; count < 70; ++count) {
      // Exact allocations for the address sanitizer, sentinels for every build.
      std::vector<float> wide(count);
      fill(wide, Fill::ramp, 0);
      std::vector<TypeParam> half(count + 1, from_bits(0x5a5a, TypeParam()));
      narrow(wide.data(), half.data(), count);
      EXPECT_EQ(bits_of(half[count]), 0x5a5a);
      half.pop_back();
      half.shrink_to_fit();
      Guarded<float> back(count);
      widen(half.data(), back.data(), count);
      EXPECT_TRUE(back.intact());
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_TRUE(same(back[i], convert::nearest_reference(static_cast<double>(wide[i]),
                                                             format_of(TypeParam()))));
    }
  });
}

}  // namespace convert_test
}  // namespace hydrascope::kernels::test
