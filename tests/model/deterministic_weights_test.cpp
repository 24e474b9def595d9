#include "tests/model/deterministic_weights.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace deterministic_weights_test {

constexpr std::uint64_t kSeed = 42;

std::vector<float> filled(const std::string& name, const std::vector<std::int64_t>& shape,
                          std::uint64_t seed = kSeed) {
  const auto count =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<float> values(static_cast<std::size_t>(count));
  fill_deterministic(name, shape, values, seed);
  return values;
}

struct Case {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<std::uint32_t> bits;
};

// From scripts/make/deterministic_weights.py: one tensor per rule.
const std::vector<Case> kPython = {
    {"input", {2, 3}, {0x3f89e11a, 0x3dc1aba0, 0x3fc448f4, 0x3f47ca2c, 0xbf3185d8, 0xbf843618}},
    {"blocks.0.attn.qkv.weight",
     {2, 3},
     {0x3f38d652, 0xbf47c1f0, 0x3ea20c2c, 0x3dacb230, 0x3f68bc46, 0xbf339ce8}},
    {"patch_embed.proj.weight", {1, 3, 1, 1}, {0xbea04e68, 0x3f555326, 0xbf594cc8}},
    {"blocks.0.attn.qkv.bias", {2}, {0xbd945037, 0x3d7ffdc7}},
    {"norm.weight", {2}, {0x3f8142be, 0x3f7f898b}},
    {"blocks.1.ls2.gamma", {2}, {0x3e861ca8, 0x3ef4f4cb}},
    {"pos_embed", {1, 2, 1}, {0x3e863e42, 0x3edc33a4}},
};

TEST(DeterministicWeights, EqualsPythonBitByBit) {
  for (const auto& [name, shape, bits] : kPython) {
    const std::vector<float> values = filled(name, shape);
    ASSERT_EQ(values.size(), bits.size()) << name;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), bits[i]) << name << " element " << i;
    }
  }
}

TEST(DeterministicWeights, RefusesASpanOfAnotherSize) {
  const std::vector<std::int64_t> shape = {2, 3};
  std::vector<float> values(5);
  EXPECT_THROW(fill_deterministic("input", shape, values, kSeed), std::invalid_argument);
  EXPECT_THROW(fill_deterministic("input", {}, values, kSeed), std::invalid_argument);
}

}  // namespace deterministic_weights_test
}  // namespace hydrascope::testing
