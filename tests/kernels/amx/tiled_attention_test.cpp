// Attention's own products on emulated tiles: the code that runs on AMX, instantiated with the other
// Tiles, against the twins of the vectors' kernels and by their tolerance.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/amx/tiled_attention_test.cpp"
// clang-format off: the rest of the file is repeated by the first of these.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/amx/amx_tiles.h"
#include "kernels/linear_attention/accumulate-inl.h"
#include "kernels/linear_attention/read_out-inl.h"
#include "kernels/softmax_attention/attend-inl.h"
#include "tests/kernels/amx/emulated_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace hydrascope::kernels::HWY_NAMESPACE {

void emulated_attend(amx::EmulatedTiles& tiles,
                     const softmax_attention::AttendParams<BFloat16>& p) {
  TileStrips<amx::EmulatedTiles> strips(tiles);
  attend_of(strips, p);
}
void machine_attend(const softmax_attention::AttendParams<BFloat16>& p) {
  amx::AmxTiles tiles;
  TileStrips<amx::AmxTiles> strips(tiles);
  attend_of(strips, p);
}
void emulated_accumulate(amx::EmulatedTiles& tiles,
                         const linear_attention::AccumulateParams<BFloat16>& p) {
  accumulate_any(TileStrips<amx::EmulatedTiles>(tiles), p);
}
void machine_accumulate(const linear_attention::AccumulateParams<BFloat16>& p) {
  amx::AmxTiles tiles;
  accumulate_any(TileStrips<amx::AmxTiles>(tiles), p);
}
void emulated_read_out(amx::EmulatedTiles& tiles,
                       const linear_attention::ReadOutParams<BFloat16>& p) {
  read_out_any(TileStrips<amx::EmulatedTiles>(tiles), p);
}
void machine_read_out(const linear_attention::ReadOutParams<BFloat16>& p) {
  amx::AmxTiles tiles;
  read_out_any(TileStrips<amx::AmxTiles>(tiles), p);
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tests/kernels/amx/trapped_tiles.h"
#include "tests/kernels/linear_attention/linear_attention_image.h"
#include "tests/kernels/softmax_attention/softmax_attention_image.h"

#include <gtest/gtest.h>

#include <cstring>

namespace hydrascope::kernels {
HWY_EXPORT(emulated_attend);
HWY_EXPORT(machine_attend);
HWY_EXPORT(emulated_accumulate);
HWY_EXPORT(machine_accumulate);
HWY_EXPORT(emulated_read_out);
HWY_EXPORT(machine_read_out);

namespace test {
namespace tiled_attention_test {

using amx::EmulatedTiles;
using softmax_attention_test::Seen;
namespace la = linear_attention;
namespace sa = softmax_attention;

/// An image whose queries attend on emulated tiles, and the counts of all of them.
struct TiledImage : softmax_attention_test::Image<BFloat16> {
  EmulatedTiles::Counts counts{};

  TiledImage(const sa::Shape& of, Fill how) : Image(of, how) {
    scratch_bytes = sa::Scratch<BFloat16>(nullptr, of.head_dim, sa::kByTiles).bytes;
    attend_by = [this](const sa::AttendParams<BFloat16>& p) {
      EmulatedTiles tiles;
      // The other operands are guarded by NaN; panels lie beside each other.
      HWY_DYNAMIC_DISPATCH(emulated_attend)(tiles, p);
      EXPECT_FALSE(tiles.configured());
      EXPECT_EQ(tiles.counts().release, 1);
      counts = tiles.counts();
    };
  }
  TiledImage(const TiledImage&) = delete;
  TiledImage& operator=(const TiledImage&) = delete;
};

void compare(TiledImage& image, std::int64_t rows) {
  softmax_attention_test::compare<BFloat16>(image, rows);
}

TEST(TiledAttend, EqualsTheTwinOnEveryShapeAndInstructionSet) {
  for_each_instruction_set([] {
    for (const std::int64_t num_tokens : {1, 31, 32, 33, 64, 65, 198}) {
      TiledImage image({num_tokens, 2, 64}, Fill::normal);
      compare(image, std::min<std::int64_t>(num_tokens, 45));
    }
    for (const std::int64_t head_dim : {32, 48, 80, 96, 128}) {
      TiledImage image({67, 2, head_dim}, Fill::normal);
      compare(image, 17);
    }
  });
  for (const std::int64_t rows : {1, 15, 16, 17, 31, 32, 33, 48, 197}) {
    TiledImage image({577, 1, 64}, Fill::normal);
    compare(image, rows);
  }
}

TEST(TiledAttend, EqualsTheTwinOnEveryKindOfInput) {
  for (const Fill how : kAllFills) {
    TiledImage image({321, 1, 64}, how);
    compare(image, 31);
  }
}

TEST(TiledAttend, TheMaximumMayRiseInEveryBlock) {
  for (const bool rising : {true, false}) {
    TiledImage image({900, 1, 64}, Fill::normal);
    for (std::int64_t j = 0; j < 900; ++j)  // scores from -30 to 30, and back
      for (std::int64_t c = 0; c < 64; ++c)
        image.k.at(j, c) = BFloat16(0.06F * static_cast<float>(rising ? j - 450 : 450 - j) / 8.0F);
    for (std::int64_t c = 0; c < 64; ++c) {
      image.q.at(0, c) = BFloat16(0.125F);
      image.q.at(1, c) = BFloat16(-0.125F);
      image.q.at(2, c) = BFloat16(1.0F);  // nearly one-hot
    }
    compare(image, 20);
  }
}

TEST(TiledAttend, ARowDependsNeitherOnItsTileNorOnWhereItIsWritten) {
  for (const std::int64_t head_dim : {48, 64}) {
    TiledImage image({333, 1, head_dim}, Fill::normal);
    image.run(197);
    image.attend(150, 47, image.q);
    image.attend(0, 0, image.q);
    image.attend(0, 9, image.q);
    image.attend(9, 141, image.q);
    for (std::int64_t row = 0; row < 197; ++row)
      ASSERT_EQ(0, std::memcmp(&image.q.at(row, 0), &image.y.at(row, 0),
                               static_cast<std::size_t>(image.width) * 2))
          << "row " << row;
  }
}

TEST(TiledAttend, NanReachesWhatItBelongsTo) {
  for (const std::int64_t num_tokens : {70, 321}) {
    for (const std::int64_t key : {std::int64_t{5}, num_tokens - 1}) {
      TiledImage image({num_tokens, 2, 32}, Fill::normal);
      image.q.at(3, 2) = BFloat16(softmax_attention_test::kNaN);         // a query of head 0
      image.v.at(key, 32 + 7) = BFloat16(softmax_attention_test::kNaN);  // a column of head 1
      image.run(19);
      for (std::int64_t row = 0; row < 19; ++row)
        for (std::int64_t c = 0; c < 64; ++c)
          ASSERT_EQ(image.y.is_nan(row, c), (row == 3 && c < 32) || c == 32 + 7)
              << row << ", " << c;
    }
  }
}

TEST(TiledAttend, QueriesSeeTheirKeysAndNoOthers) {
  for (const sa::Shape& shape : {sa::Shape{33, 1, 64}, sa::Shape{64, 2, 32}, sa::Shape{97, 2, 80},
                                 sa::Shape{441, 1, 64}, sa::Shape{577, 1, 64}}) {
    const std::int64_t rows = std::min<std::int64_t>(shape.num_tokens, 43);
    for (const Seen& seen : softmax_attention_test::patterns_of_seen_keys(rows, shape.num_tokens)) {
      TiledImage image(shape, Fill::normal);
      image.pack(0, shape.num_tokens);
      image.attend(0, rows, image.y, seen.bits<BFloat16>().data());
      expect_rows(image.y, image.reference(rows, seen.keys.data()), 0,
                  softmax_attention_test::tolerance<BFloat16>(image, rows),
                  "N " + std::to_string(shape.num_tokens));
    }
  }
  const Seen seen(19, 600, [](std::int64_t row, std::int64_t key) { return key % 19 == row; });
  TiledImage image({600, 1, 32}, Fill::normal);
  for (std::int64_t key = 0; key < 600; key += 19)
    image.k.at(key, 3) = BFloat16(softmax_attention_test::kNaN);
  image.pack(0, 600);
  image.attend(0, 19, image.y, seen.bits<BFloat16>().data());
  for (std::int64_t row = 0; row < 19; ++row)
    for (std::int64_t c = 0; c < 32; ++c) ASSERT_EQ(image.y.is_nan(row, c), row == 0) << row;
}

TEST(TiledAttend, MachineCodeGivesTheSameBits) {
  if (const char* reason = why_not_trapped()) GTEST_SKIP() << reason;
  for (const std::int64_t rows : {1, 16, 27, 45}) {
    TiledImage emulated({300, 1, 48}, Fill::normal);
    emulated.run(rows);
    TiledImage machine({300, 1, 48}, Fill::normal);
    machine.attend_by = [&](const sa::AttendParams<BFloat16>& p) {
      TrappedTiles trap;
      HWY_DYNAMIC_DISPATCH(machine_attend)(p);
      EXPECT_FALSE(trap.tiles().configured());
      EXPECT_EQ(trap.tiles().counts().dot, emulated.counts.dot);
    };
    machine.run(rows);
    EXPECT_EQ(0, std::memcmp(emulated.y.data(), machine.y.data(),
                             static_cast<std::size_t>(rows * emulated.y.stride) * 2));
  }
}

/// An image that is mixed on emulated tiles, and the counts of its last calls.
struct TiledState : linear_attention_test::Image<BFloat16> {
  EmulatedTiles::Counts of_sums{};
  EmulatedTiles::Counts of_rows{};

  TiledState(const la::Shape& of, std::int64_t num_rows, Fill how) : Image(of, num_rows, how) {
    accumulate_by = [this](const la::AccumulateParams<BFloat16>& p) {
      EmulatedTiles tiles;
      HWY_DYNAMIC_DISPATCH(emulated_accumulate)(tiles, p);
      EXPECT_FALSE(tiles.configured());
      of_sums = tiles.counts();
    };
    read_out_by = [this](const la::ReadOutParams<BFloat16>& p) {
      EmulatedTiles tiles;
      HWY_DYNAMIC_DISPATCH(emulated_read_out)(tiles, p);
      EXPECT_FALSE(tiles.configured());
      of_rows = tiles.counts();
    };
  }
  TiledState(const TiledState&) = delete;
  TiledState& operator=(const TiledState&) = delete;
};

TEST(TiledLinearAttention, EqualsTheTwinForEveryMapAndInstructionSet) {
  for_each_instruction_set([] {
    for (const la::Feature feature : la::kAllFeatures) {
      TiledState image(la::shape_of(feature, 2, 64, 64), 50, Fill::normal);
      image.mix(50);
      image.compare(7);
    }
  });
  for (const auto& [width, head_dim] :
       {std::pair<std::int64_t, std::int64_t>{16, 64}, {24, 48}, {37, 70}, {64, 128}}) {
    TiledState image(la::shape_of(la::Feature::softmax_pair, 1, width, head_dim), 83, Fill::normal);
    image.mix(43);
    image.compare(3);
  }
  for (const Fill how : kAllFills) {
    TiledState image(la::shape_of(la::Feature::elu_plus_one, 1, 64, 64), 150, how);
    image.weights = {2, 0.5, 1.5};
    image.mix(150);
    image.compare(11);
  }
}

TEST(TiledLinearAttention, MachineCodeGivesTheSameBits) {
  if (const char* reason = why_not_trapped()) GTEST_SKIP() << reason;
  const la::Shape shape = la::shape_of(la::Feature::exp_pair, 2, 24, 70);
  TiledState emulated(shape, 53, Fill::normal);
  emulated.mix(53);
  TiledState machine(shape, 53, Fill::normal);
  machine.accumulate_by = [&](const la::AccumulateParams<BFloat16>& p) {
    TrappedTiles trap;
    HWY_DYNAMIC_DISPATCH(machine_accumulate)(p);
    EXPECT_FALSE(trap.tiles().configured());
    EXPECT_EQ(trap.tiles().counts().dot, emulated.of_sums.dot);
  };
  machine.read_out_by = [&](const la::ReadOutParams<BFloat16>& p) {
    TrappedTiles trap;
    HWY_DYNAMIC_DISPATCH(machine_read_out)(p);
    EXPECT_FALSE(trap.tiles().configured());
    EXPECT_EQ(trap.tiles().counts().dot, emulated.of_rows.dot);
  };
  machine.mix(53);
  EXPECT_EQ(emulated.combined, machine.combined);
  EXPECT_EQ(0, std::memcmp(emulated.y.data(), machine.y.data(),
                           static_cast<std::size_t>(53 * emulated.y.stride) * 2));
}

}  // namespace tiled_attention_test
}  // namespace test
}  // namespace hydrascope::kernels
#endif  // HWY_ONCE
