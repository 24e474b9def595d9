#include "model/explain/substrate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace hydrascope::model::explain {
namespace {

TEST(SubstrateTest, MeanIsZeroAndBlackIsWhatBytesOfZeroBecome) {
  const at::Tensor image = at::rand({3, 8, 8});
  PictureSubstrates substrates(image, {0.5, 0.4, 0.3}, {0.1, 0.2, 0.3});
  EXPECT_TRUE(at::equal(substrates.get(Substrate::mean), at::zeros_like(image)));
  const at::Tensor& black = substrates.get(Substrate::black);
  EXPECT_TRUE(at::allclose(black.select(0, 0), at::full({8, 8}, -5.0F)));
  EXPECT_TRUE(at::allclose(black.select(0, 1), at::full({8, 8}, -2.0F)));
  EXPECT_TRUE(at::allclose(black.select(0, 2), at::full({8, 8}, -1.0F)));
  EXPECT_EQ(&black, &substrates.get(Substrate::black)) << "made once";
  EXPECT_TRUE(at::equal(substrates.get(Substrate::blur), blurred(image, blur_sigma(8, 8))));
}

TEST(SubstrateTest, BlurSpreadsAPointAsAGaussian) {
  constexpr double kSigma = 2;
  at::Tensor image = at::zeros({3, 41, 31});
  image[1][20][15] = 1;
  const at::Tensor blur = blurred(image, kSigma);
  EXPECT_NEAR(blur.select(0, 1).sum().item<double>(), 1, 1e-5);
  EXPECT_EQ(blur.select(0, 0).abs().sum().item<double>(), 0) << "channels are apart";
  const auto at = [&](std::int64_t y, std::int64_t x) { return blur[1][y][x].item<double>(); };
  EXPECT_NEAR(at(23, 14) / at(20, 15), std::exp(-(9.0 + 1.0) / (2 * kSigma * kSigma)), 1e-5);
  EXPECT_EQ(at(20 + 7, 15), 0) << "cut at three sigma";
  EXPECT_GT(at(20 + 6, 15), 0);
}

TEST(SubstrateTest, BlurKeepsFlatPicturesAndFitsIntoSmallOnes) {
  const at::Tensor flat = at::full({3, 6, 9}, 0.7F);
  EXPECT_TRUE(at::allclose(blurred(flat, 1.5), flat));
  EXPECT_TRUE(at::allclose(blurred(flat, 50), flat)) << "wider than the picture";
  EXPECT_DOUBLE_EQ(blur_sigma(224, 448), 11.2);
}

TEST(SubstrateTest, SubstratesAreFoundByName) {
  for (const SubstrateEntry& entry : substrates()) {
    EXPECT_EQ(find_substrate_or_null(entry.name), &entry);
    EXPECT_EQ(entry_of(entry.substrate).name, entry.name);
  }
  EXPECT_EQ(find_substrate_or_null("white"), nullptr);
}

}  // namespace
}  // namespace hydrascope::model::explain
