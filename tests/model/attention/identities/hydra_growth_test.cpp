// How Hydra's output grows with the number of tokens, and what the scale policies make of it.
#include "tests/model/attention/mixer_under_test.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace hydrascope::testing {
namespace hydra_growth_test {

using model::TokenGrid;

constexpr TokenGrid kTraining{1, 14, 14};  // 197 tokens
constexpr TokenGrid kFullHd{1, 68, 120};   // 8161 tokens

constexpr HeadShape kHeads{4, 16};

/// Mean norm of the output at 1088x1920 over that at 224x224, for tokens of the given mean.
double growth(const std::string& scale, double mean) {
  at::manual_seed(7);
  const auto norm_at = [&](const TokenGrid& grid) {
    const MixerUnderTest mixer({"hydra", {{"scale", scale}}}, kTraining, kHeads);
    const auto tokens = [&] {
      return at::randn({1, kHeads.num_heads, grid.num_tokens(), kHeads.head_dim}) + mean;
    };
    const at::Tensor y = mixer.mix({tokens(), tokens(), tokens()}, grid);
    return y.norm(2, {-1}).mean().item<double>();
  };
  return norm_at(kFullHd) / norm_at(kTraining);
}

TEST(HydraGrowthTest, CoherentFeaturesGrowWithNIncoherentOnesWithItsRoot) {
  const double ratio = 8161.0 / 197;
  RecordProperty("coherent", std::to_string(growth("none", 0.5)));
  RecordProperty("incoherent", std::to_string(growth("none", 0.0)));
  EXPECT_NEAR(growth("none", 0.5), ratio, 0.15 * ratio);
  EXPECT_NEAR(growth("none", 0.0), std::sqrt(ratio), 0.35 * std::sqrt(ratio));
}

TEST(HydraGrowthTest, PoliciesUndoTheGrowthTheyAreNamedFor) {
  EXPECT_NEAR(growth("linear", 0.5), 1, 0.15);
  EXPECT_NEAR(growth("patch", 0.5), 1, 0.15);
  EXPECT_NEAR(growth("sqrt", 0.0), 1, 0.35);
}

}  // namespace hydra_growth_test
}  // namespace hydrascope::testing
