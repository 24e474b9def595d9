// The micro-kernel, on emulated tiles everywhere and on AMX where there is one.
#include "kernels/amx/tile_product.h"

#include "kernels/amx/amx_tiles.h"
#include "kernels/amx/tile_weights.h"
#include "kernels/device/matrix_instructions.h"
#include "kernels/linear/linear.h"
#include "tests/kernels/amx/emulated_tiles.h"
#include "tests/kernels/amx/trapped_tiles.h"
#include "tests/kernels/kernel_case.h"

#include <gtest/gtest.h>

namespace hydrascope::kernels::test {
namespace tile_product_test {

using amx::AmxTiles;
using amx::EmulatedTiles;

template <amx::Elements kElements>
struct Types {
  using A = BFloat16;
  using B = BFloat16;
  using C = float;
  static constexpr std::int64_t kGroup = 2;  ///< k that lie side by side in a panel
};
template <>
struct Types<amx::Elements::uint8_int8> {
  using A = std::uint8_t;
  using B = std::int8_t;
  using C = std::int32_t;
  static constexpr std::int64_t kGroup = 4;
};

/// Emulated tiles get to know what they may touch.
void restrict_to(EmulatedTiles& tiles, std::span<const std::byte> a, std::span<const std::byte> b,
                 std::span<std::byte> c) {
  tiles.allow_reading(a.data(), a.size());
  tiles.allow_reading(b.data(), b.size());
  tiles.allow_writing(c.data(), c.size());
}
void restrict_to(AmxTiles&, std::span<const std::byte>, std::span<const std::byte>,
                 std::span<std::byte>) {}

template <amx::Elements kElements, class Tiles>
void multiply_columns(Tiles& tiles, amx::TileProduct p) {
  for (int half = 0; half < 2; ++half) {
    amx::tile_product<kElements>(tiles, p);
    p.b += p.form.half;
    p.c += amx::kHalfColumns * amx::kSumBytes;
  }
}

template <amx::Elements kElements, class Tiles>
void compare(int rows, std::int64_t steps, bool as_weights) {
  using Type = Types<kElements>;
  SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(steps) +
               (as_weights ? " steps of weights" : " steps of a panel"));
  const std::int64_t depth = steps * 64 / static_cast<std::int64_t>(sizeof(typename Type::A));
  const std::int64_t stride = depth + 10;
  std::mt19937 random(static_cast<unsigned>(steps + rows));
  std::uniform_int_distribution<int> small(-8, 8);
  // Whole numbers: float32 sums are exact, in any order.
  std::vector<typename Type::A> a(static_cast<std::size_t>(rows * stride));
  std::vector<typename Type::B> b(static_cast<std::size_t>(depth * 64));
  std::vector<typename Type::C> c(static_cast<std::size_t>(rows * 64), typename Type::C{77});
  if constexpr (kElements == amx::Elements::bfloat16) {
    for (auto& x : a) x = BFloat16(static_cast<float>(small(random)));
    for (auto& x : b) x = BFloat16(static_cast<float>(small(random)));
  } else {
    for (auto& x : a) x = static_cast<std::uint8_t>(random());
    for (auto& x : b) x = static_cast<std::int8_t>(random());
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(a.data());
  const auto row_bytes = static_cast<std::int64_t>(sizeof(typename Type::A)) * stride;
  std::vector<typename Type::B> ordered = b;
  if (as_weights) amx::order_as_tiles(reinterpret_cast<std::byte*>(ordered.data()), steps);
  Tiles tiles;
  restrict_to(tiles, std::as_bytes(std::span(a)), std::as_bytes(std::span(ordered)),
              std::as_writable_bytes(std::span(c)));
  {
    const amx::TileSession<Tiles> session(tiles, amx::tile_rows(rows));
    multiply_columns<kElements>(
        tiles,
        amx::TileProduct{bytes, row_bytes, rows - amx::tile_rows(rows), steps,
                         reinterpret_cast<const std::byte*>(ordered.data()),
                         as_weights ? amx::weight_form(steps) : amx::kPanelForm,
                         reinterpret_cast<std::byte*>(c.data()), 64 * sizeof(typename Type::C)});
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t column = 0; column < 64; ++column) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const std::int64_t at = (k / Type::kGroup * 64 + column) * Type::kGroup + k % Type::kGroup;
        sum +=
            static_cast<double>(static_cast<float>(a[static_cast<std::size_t>(r * stride + k)])) *
            static_cast<double>(static_cast<float>(b[static_cast<std::size_t>(at)]));
      }
      ASSERT_EQ(static_cast<double>(c[static_cast<std::size_t>(r * 64 + column)]), sum)
          << "row " << r << ", column " << column;
    }
  }
}

template <class Tiles>
void compare_all() {
  for (const std::int64_t steps : {0, 1, 2, 5}) {
    for (const bool as_weights : {false, true}) {
      for (const int rows : {1, 2, 7, 15, 16, 17, 18, 23, 31, 32}) {
        compare<amx::Elements::bfloat16, Tiles>(rows, steps, as_weights);
        compare<amx::Elements::uint8_int8, Tiles>(rows, steps, as_weights);
      }
    }
  }
}

TEST(TileProduct, EqualsTheNaiveProductOnEmulatedTiles) { compare_all<EmulatedTiles>(); }

TEST(TileProduct, EqualsTheNaiveProductOnAmx) {
  if (!device::may_use(device::MatrixInstruction::amx_bf16) ||
      !device::may_use(device::MatrixInstruction::amx_int8))
    GTEST_SKIP() << (device::amx_refusal() != nullptr ? device::amx_refusal()
                                                      : "AMX without bfloat16 or 8-bit integers");
  compare_all<AmxTiles>();
}

TEST(TileProduct, MachineCodeDoesWhatItShould) {
  if (const char* reason = why_not_trapped()) GTEST_SKIP() << reason;
  TrappedTiles trap;
  compare_all<AmxTiles>();
  EXPECT_GT(trap.tiles().counts().dot, 0);
  EXPECT_EQ(trap.tiles().counts().configure, trap.tiles().counts().release);
}

TEST(TileProduct, SumsThatWaitInMemoryLoseNothing) {
  constexpr std::int64_t kSteps = 5;
  std::vector<BFloat16> a(32 * 32 * kSteps);
  std::vector<BFloat16> b(64 * 32 * kSteps);
  fill(a, Fill::normal, 1);
  fill(b, Fill::normal, 2);
  for (const int rows : {9, 25, 32}) {  // of two equal tiles, of two that overlap, and apart
    std::vector<float> whole(32 * 64);
    std::vector<float> parts(32 * 64);
    const auto run = [&](std::int64_t first, std::int64_t steps, std::vector<float>& c) {
      EmulatedTiles tiles;
      const amx::TileSession<EmulatedTiles> session(tiles, amx::tile_rows(rows));
      multiply_columns<amx::Elements::bfloat16>(
          tiles, amx::TileProduct{
                     reinterpret_cast<const std::byte*>(a.data()) + first * 64, 64 * kSteps,
                     rows - amx::tile_rows(rows), steps,
                     reinterpret_cast<const std::byte*>(b.data()) + first * amx::kPanelStepBytes,
                     amx::kPanelForm, reinterpret_cast<std::byte*>(c.data()), 256, first > 0});
    };
    run(0, kSteps, whole);
    run(0, 2, parts);
    run(2, 3, parts);
    EXPECT_EQ(whole, parts);
  }
}

}  // namespace tile_product_test
}  // namespace hydrascope::kernels::test
