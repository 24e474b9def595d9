#include "model/training/mixup.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hydrascope::model::training {
namespace {

MixupOptions both() {
  MixupOptions options;
  options.mixup_alpha = 0.8;
  options.cutmix_alpha = 1;
  return options;
}

TEST(MixupTest, DrawsWhatIsAskedFor) {
  MixupOptions options = both();
  options.prob = 0.75;
  constexpr int kDraws = 4000;
  int mixed = 0, cutmix = 0;
  double mixup_share = 0;
  for (std::uint64_t draw = 0; draw < kDraws; ++draw) {
    RandomStream random({7, draw});
    const Mixing mixing = draw_mixing(options, 20, 30, random);
    if (mixing.is_cutmix) {
      ++cutmix;
      ASSERT_TRUE(0 <= mixing.top && mixing.top <= mixing.bottom && mixing.bottom <= 20);
      ASSERT_TRUE(0 <= mixing.left && mixing.left <= mixing.right && mixing.right <= 30);
      const auto area =
          static_cast<double>((mixing.bottom - mixing.top) * (mixing.right - mixing.left));
      ASSERT_DOUBLE_EQ(mixing.share, 1 - area / 600);
    } else if (mixing.share < 1) {
      mixup_share += mixing.share;
    }
    if (mixing.is_cutmix || mixing.share < 1) ++mixed;
  }
  // Four standard deviations: sqrt(4000 x 0.75 x 0.25) = 27, and of the share 0.31 / sqrt(1500).
  EXPECT_NEAR(mixed, 0.75 * kDraws, 110);
  EXPECT_NEAR(cutmix, 0.5 * 0.75 * kDraws, 123);
  EXPECT_NEAR(mixup_share / (mixed - cutmix), 0.5, 0.032);
}

TEST(MixupTest, OneOfTheTwoIsAlwaysThatOne) {
  MixupOptions mixup = both(), cutmix = both();
  mixup.cutmix_alpha = 0;
  cutmix.mixup_alpha = 0;
  for (std::uint64_t draw = 0; draw < 50; ++draw) {
    RandomStream random({8, draw});
    EXPECT_FALSE(draw_mixing(mixup, 8, 8, random).is_cutmix);
    EXPECT_TRUE(draw_mixing(cutmix, 8, 8, random).is_cutmix);
    EXPECT_EQ(draw_mixing({}, 8, 8, random).share, 1);
  }
}

TEST(MixupTest, MixesImages) {
  at::manual_seed(0);
  const at::Tensor images = at::randn({4, 3, 6, 8});
  Mixing mixing;
  mixing.share = 0.3;
  const at::Tensor mixed = mix_images(images, mixing);
  for (int i = 0; i < 4; ++i)
    EXPECT_TRUE(at::allclose(mixed[i], 0.3 * images[i] + 0.7 * images[3 - i], 1e-5, 1e-6)) << i;
}

TEST(MixupTest, CutsABoxOutOfTheOtherImage) {
  at::manual_seed(0);
  const at::Tensor images = at::randn({4, 3, 6, 8});
  const at::Tensor before = images.clone();
  const at::Tensor mixed = mix_images(images, {0.75, true, 1, 4, 2, 6});
  EXPECT_TRUE(at::equal(images, before));
  for (int i = 0; i < 4; ++i) {
    for (int row = 0; row < 6; ++row) {
      for (int column = 0; column < 8; ++column) {
        const bool inside = row >= 1 && row < 4 && column >= 2 && column < 6;
        const at::Tensor expected = images.select(0, inside ? 3 - i : i);
        ASSERT_TRUE(at::equal(mixed.select(0, i).select(1, row).select(1, column),
                              expected.select(1, row).select(1, column)))
            << i << ": " << row << ", " << column;
      }
    }
  }
}

TEST(MixupTest, MixesAndSmoothsTargets) {
  Mixing mixing;
  mixing.share = 0.75;
  const at::Tensor mixed = mix_targets(at::tensor({2, 0}, at::kLong), 4, mixing, 0.2);
  const at::Tensor expected = at::tensor({0.05 + 0.25 * 0.8, 0.05, 0.05 + 0.75 * 0.8, 0.05,  //
                                          0.05 + 0.75 * 0.8, 0.05, 0.05 + 0.25 * 0.8, 0.05},
                                         at::kDouble)
                                  .view({2, 4});
  EXPECT_EQ(mixed.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::allclose(mixed.to(at::kDouble), expected, 1e-6, 1e-7));
}

}  // namespace
}  // namespace hydrascope::model::training
