// Attention's own products on emulated tiles: the code that runs on AMX, instantiated with the other
// Tiles, against the twins of the vectors' kernels and by their tolerance.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/amx/tiled_attention_test.cpp"
// clang-format off: the rest of the file is repeated by the first of these.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

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
void emulated_accumulate(amx::EmulatedTiles& tiles,
                         const linear_attention::AccumulateParams<BFloat16>& p) {
  accumulate_any(TileStrips<amx::EmulatedTiles>(tiles), p);
}
void emulated_read_out(amx::EmulatedTiles& tiles,
                       const linear_attention::ReadOutParams<BFloat16>& p) {
  read_out_any(TileStrips<amx::EmulatedTiles>(tiles), p);
}

}  // namespace hydrascope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tests/kernels/linear_attention/linear_attention_image.h"
#include "tests/kernels/softmax_attention/softmax_attention_suite.h"

#include <gtest/gtest.h>

namespace hydrascope::kernels {
HWY_EXPORT(emulated_attend);
HWY_EXPORT(emulated_accumulate);
HWY_EXPORT(emulated_read_out);

namespace test {
namespace tiled_attention_test {

using amx::EmulatedTiles;
namespace la = linear_attention;
namespace sa = softmax_attention;

/// An image whose queries attend on emulated tiles.
struct TiledImage : softmax_attention_test::Image<BFloat16> {
  static constexpr bool kSlow = true;
  static constexpr std::int64_t kLeastHeadDim = 32;

  TiledImage(const sa::Shape& of, Fill how) : Image(of, how) {
    scratch_bytes = sa::Scratch<BFloat16>(nullptr, of.head_dim, sa::kByTiles).bytes;
    attend_by = [](const sa::AttendParams<BFloat16>& p) {
      EmulatedTiles tiles;
      // The other operands are guarded by NaN; panels lie beside each other.
      HWY_DYNAMIC_DISPATCH(emulated_attend)(tiles, p);
      EXPECT_FALSE(tiles.configured());
      EXPECT_EQ(tiles.counts().release, 1);
    };
  }
};

using TiledImages = ::testing::Types<TiledImage>;

/// An image that is mixed on emulated tiles.
struct TiledState : linear_attention_test::Image<BFloat16> {
  TiledState(const la::Shape& of, std::int64_t num_rows, Fill how) : Image(of, num_rows, how) {
    accumulate_by = [](const la::AccumulateParams<BFloat16>& p) {
      EmulatedTiles tiles;
      HWY_DYNAMIC_DISPATCH(emulated_accumulate)(tiles, p);
      EXPECT_FALSE(tiles.configured());
    };
    read_out_by = [](const la::ReadOutParams<BFloat16>& p) {
      EmulatedTiles tiles;
      HWY_DYNAMIC_DISPATCH(emulated_read_out)(tiles, p);
      EXPECT_FALSE(tiles.configured());
    };
  }
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

}  // namespace tiled_attention_test

namespace softmax_attention_test {
INSTANTIATE_TYPED_TEST_SUITE_P(Tiles, SoftmaxAttention, tiled_attention_test::TiledImages);
INSTANTIATE_TYPED_TEST_SUITE_P(Tiles, ExactSoftmaxAttention, tiled_attention_test::TiledImages);
}  // namespace softmax_attention_test

}  // namespace test
}  // namespace hydrascope::kernels
#endif  // HWY_ONCE
