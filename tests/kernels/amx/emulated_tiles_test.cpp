// That the emulation says no where the processor would, and computes what the manual says.
#include "tests/kernels/amx/emulated_tiles.h"

#include "kernels/amx/amx_tiles.h"
#include "kernels/amx/tile_product.h"
#include "kernels/device/matrix_instructions.h"
#include "tests/kernels/kernel_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace hydrascope::kernels::test {
namespace {

using amx::EmulatedTiles;
using amx::TileConfiguration;
using amx::TileFault;

/// The text of the fault, or "" where there was none.
std::string fault_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const TileFault& fault) {
    return fault.what();
  }
  return "";
}

TEST(EmulatedTiles, TheConfigurationIsTheManualsBytes) {
  const TileConfiguration c = amx::configuration_for(16);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&c);
  for (std::size_t i = 0; i < sizeof c; ++i) {
    int expected = 0;
    if (i == 0) expected = 1;                            // palette
    if (i >= 16 && i < 32 && i % 2 == 0) expected = 64;  // colsb, little-endian
    if (i >= 48 && i < 56) expected = 16;                // rows
    EXPECT_EQ(bytes[i], expected) << "byte " << i;
  }
}

TEST(EmulatedTiles, ReportsWhatTheProcessorRefuses) {
  std::vector<std::byte> memory(16 * 96);
  const auto fault_with = [&](void (*change)(TileConfiguration&), auto use) {
    EmulatedTiles tiles;
    tiles.allow_reading(memory.data(), memory.size());
    TileConfiguration configuration = amx::configuration_for(16);
    change(configuration);
    return fault_of([&] {
      tiles.configure(configuration);
      use(tiles);
    });
  };
  const auto as_it_is = [](TileConfiguration&) {};
  const auto multiply = [](EmulatedTiles& tiles) {
    tiles.dot_bfloat16(amx::kSum0, amx::kFirstA, amx::kFirstB);
  };
  const auto load = [&](std::int64_t stride) {
    return [&, stride](EmulatedTiles& tiles) { tiles.load(amx::kFirstA, memory.data(), stride); };
  };
  EXPECT_EQ(fault_with(as_it_is, multiply), "");
  EXPECT_EQ(fault_with(as_it_is, load(96)), "");
  const std::pair<const char*, std::string> kFaults[] = {
      {"palette 2", fault_with([](TileConfiguration& c) { c.palette = 2; }, multiply)},
      {"tile 5 has more than 16 rows",
       fault_with([](TileConfiguration& c) { c.rows[5] = 17; }, multiply)},
      {"sum and A differ in rows",
       fault_with([](TileConfiguration& c) { c.rows[4] = 15; }, multiply)},
      {"A's columns and B's rows differ",
       fault_with([](TileConfiguration& c) { c.rows[6] = 8; }, multiply)},
      {"one tile in two roles", fault_with(as_it_is,
                                           [](EmulatedTiles& tiles) {
                                             tiles.dot_bfloat16(amx::kSum0, amx::kFirstA,
                                                                amx::kFirstA);
                                           })},
      {"tiles are not configured", fault_with(as_it_is,
                                              [&](EmulatedTiles& tiles) {
                                                tiles.release();
                                                multiply(tiles);
                                              })},
      {"a row outside", fault_with(as_it_is, load(100))},
      {"a row outside", fault_with(as_it_is, load(-96))},
  };
  for (const auto& [words, fault] : kFaults) EXPECT_THAT(fault, testing::HasSubstr(words));
}

TEST(EmulatedTiles, LoadsAndStoresByStrideAndLeavesGapsAlone) {
  std::vector<std::uint8_t> from(16 * 70);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i % 251);
  std::vector<std::uint8_t> to(16 * 80, 0xee);
  EmulatedTiles tiles;
  tiles.configure(amx::configuration_for(16));
  tiles.load(amx::kFirstB, from.data(), 70);
  tiles.store(amx::kFirstB, to.data(), 80);
  for (std::size_t row = 0; row < 16; ++row)
    for (std::size_t i = 0; i < 80; ++i)
      ASSERT_EQ(to[row * 80 + i], i < 64 ? from[row * 70 + i] : 0xee);
}

/// One instruction on memory, by any tiles.
template <class Tiles>
void one_dot(amx::Elements elements, int rows, const void* a, const void* b, void* c) {
  Tiles tiles;
  const amx::TileSession<Tiles> session(tiles, rows);
  tiles.load(amx::kSum0, c, 64);
  tiles.load(amx::kFirstA, a, 64);
  tiles.load(amx::kFirstB, b, 64);
  if (elements == amx::Elements::bfloat16)
    tiles.dot_bfloat16(amx::kSum0, amx::kFirstA, amx::kFirstB);
  else
    tiles.dot_uint8_int8(amx::kSum0, amx::kFirstA, amx::kFirstB);
  tiles.store(amx::kSum0, c, 64);
}

TEST(EmulatedTiles, SubnormalsAreZeroAndEvenAndOddAreSummedApart) {
  BFloat16 a[16 * 32] = {};
  BFloat16 b[16 * 32] = {};
  float c[16 * 16] = {};
  a[0] = BFloat16(1.0F);
  b[0].bits = 0x0001;  // subnormal
  b[3] = BFloat16(1.0F);
  a[1] = BFloat16(3.0F);
  c[2] = 1e-40F;  // subnormal
  one_dot<EmulatedTiles>(amx::Elements::bfloat16, 16, a, b, c);
  EXPECT_EQ(c[0], 0.0F);
  EXPECT_EQ(c[1], 3.0F);
  EXPECT_EQ(c[2], 0.0F);
  // 2^24 + 1 - 2^24 in the order of k is 0; here the even ones cancel first, and 1 stays.
  a[0] = b[0] = BFloat16(4096.0F);
  a[1] = b[1] = BFloat16(1.0F);
  a[2] = BFloat16(4096.0F);
  b[32] = BFloat16(-4096.0F);
  c[0] = 0;
  one_dot<EmulatedTiles>(amx::Elements::bfloat16, 16, a, b, c);
  EXPECT_EQ(c[0], 1.0F);
}

TEST(EmulatedTiles, IntegersTakeAUnsignedAndBSignedAndWrap) {
  std::uint8_t a[16 * 64] = {};
  std::int8_t b[16 * 64] = {};
  std::int32_t c[16 * 16] = {};
  for (int i = 0; i < 4; ++i) a[64 + i] = 255, b[4 * 3 + i] = -128;
  c[16 + 3] = -5;
  a[0] = 1;
  b[0] = 1;
  c[0] = std::numeric_limits<std::int32_t>::max();
  one_dot<EmulatedTiles>(amx::Elements::uint8_int8, 16, a, b, c);
  EXPECT_EQ(c[16 + 3], -5 - 4 * 255 * 128);
  EXPECT_EQ(c[0], std::numeric_limits<std::int32_t>::min());
}

// Only where there is AMX: what all other tests of this folder rest on.
TEST(AmxTiles, DoesWhatTheEmulationDoes) {
  if (!device::may_use(device::MatrixInstruction::amx_bf16) ||
      !device::may_use(device::MatrixInstruction::amx_int8))
    GTEST_SKIP() << (device::amx_refusal() != nullptr ? device::amx_refusal()
                                                      : "AMX without bfloat16 or 8-bit integers");
  std::mt19937 random(7);
  for (int rows = 1; rows <= 16; ++rows) {
    std::uint8_t a8[16 * 64];
    std::int8_t b8[16 * 64];
    std::int32_t found[16 * 16] = {};
    std::int32_t expected[16 * 16] = {};
    for (std::uint8_t& x : a8) x = static_cast<std::uint8_t>(random());
    for (std::int8_t& x : b8) x = static_cast<std::int8_t>(random());
    one_dot<amx::AmxTiles>(amx::Elements::uint8_int8, rows, a8, b8, found);
    one_dot<EmulatedTiles>(amx::Elements::uint8_int8, rows, a8, b8, expected);
    EXPECT_TRUE(std::equal(found, found + 256, expected));
    BFloat16 a[16 * 32];
    BFloat16 b[16 * 32];
    float sums[16 * 16] = {};
    float expected_sums[16 * 16] = {};
    fill(a, Fill::normal, static_cast<unsigned>(rows));
    fill(b, Fill::normal, static_cast<unsigned>(100 + rows));
    one_dot<amx::AmxTiles>(amx::Elements::bfloat16, rows, a, b, sums);
    one_dot<EmulatedTiles>(amx::Elements::bfloat16, rows, a, b, expected_sums);
    for (int i = 0; i < 256; ++i) ASSERT_NEAR(sums[i], expected_sums[i], 32 * 1e-6F);
  }
}

}  // namespace
}  // namespace hydrascope::kernels::test
