// Mechanisms that use the patch grid or mix through few tokens: cases 29 to 31 of the mathematical
// reference.
#include "tests/error_matchers.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numbers>

namespace hydrascope::testing {
namespace landmark_identities_test {

using model::Kernels;
using model::TokenGrid;

const HeadShape kShape{2, 4};

Tokens tokens_of(std::uint64_t seed, const TokenGrid& grid) {
  at::manual_seed(seed);
  return random_tokens(2, grid.num_tokens(), kShape, at::kDouble);
}

/// cos of the differences of `angles` (n), (n, n).
at::Tensor cosines_of_differences(const at::Tensor& angles) {
  return (angles.unsqueeze(1) - angles.unsqueeze(0)).cos();
}

TEST(LandmarkIdentitiesTest, AttentionCase29CosformerIsExplicitReweighting) {
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kColumns = 5;
  constexpr double kHalfPi = std::numbers::pi / 2;
  const at::Tensor patch = at::arange(kRows * kColumns).to(at::kDouble);
  const at::Tensor by_row = cosines_of_differences(kHalfPi / kRows * (patch / kColumns).floor());
  const at::Tensor by_column =
      cosines_of_differences(kHalfPi / kColumns * patch.remainder(kColumns));
  for (const std::int64_t prefix : {0, 1, 3}) {
    const TokenGrid grid{prefix, kRows, kColumns};
    const Tokens tokens = tokens_of(1, grid);
    const at::Tensor products = at::relu(tokens.q).matmul(at::relu(tokens.k).mT());
    at::Tensor all = at::ones({grid.num_tokens(), grid.num_tokens()}, at::kDouble);
    all.narrow(0, prefix, patch.numel()).narrow(1, prefix, patch.numel()).copy_(by_row * by_column);
    const at::Tensor weights = products * all;
    const at::Tensor map = plain_mixer(spec_of("cosformer"), grid, kShape).map(tokens, grid);
    EXPECT_TRUE(all_near(map, weights / (weights.sum(-1, true) + 1e-6), 1e-10)) << prefix;
    EXPECT_GE(map.min().item<double>(), -1e-15);
  }
}

TEST(LandmarkIdentitiesTest, AttentionCase30EfficientAttentionIsNotFeatureSoftmaxTwice) {
  const TokenGrid grid{1, 4, 6};
  const Tokens tokens = tokens_of(3, grid);
  const at::Tensor map = plain_mixer(spec_of("efficient"), grid, kShape).map(tokens, grid);
  EXPECT_TRUE(all_near(map.sum(-1), at::ones({2, 2, grid.num_tokens()}), 1e-12));
  const at::Tensor twice = at::softmax(tokens.q, -1).matmul(at::softmax(tokens.k, -1).mT());
  EXPECT_GT(relative_error(map, twice / twice.sum(-1, true)), 1e-3);
}

TEST(LandmarkIdentitiesTest, AttentionCase31LinformerWithoutProjectionIsSoftmax) {
  const TokenGrid grid{1, 4, 6};
  const Tokens tokens = tokens_of(4, grid);
  const at::Tensor expected = plain_mixer(spec_of("softmax"), grid, kShape).mix(tokens, grid);
  const MixerUnderTest dense = plain_mixer(spec_of("linformer", {{"length", "25"}}), grid, kShape);
  dense.set("projection.k", at::eye(25));
  dense.set("projection.v", at::eye(25));
  const MixerUnderTest patches = plain_mixer(
      spec_of("linformer", {{"projection", "patches"}, {"length", "24"}}), grid, kShape);
  patches.set("projection.k", at::eye(24));
  patches.set("projection.v", at::eye(24));
  const MixerUnderTest pool =
      plain_mixer(spec_of("linformer", {{"projection", "pool"}, {"length", "24"}}), grid, kShape);
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    EXPECT_TRUE(all_near(dense.mix(tokens, grid, kernels), expected, 1e-10));
    EXPECT_TRUE(all_near(patches.mix(tokens, grid, kernels), expected, 1e-10));
    EXPECT_TRUE(all_near(pool.mix(tokens, grid, kernels), expected, 1e-10));
  }
}

TEST(LandmarkIdentitiesTest, AttentionCase31LinformerNamesBothNumbersOfTokens) {
  const TokenGrid training{1, 4, 6};
  const TokenGrid grid{1, 5, 6};
  const MixerUnderTest mixer = plain_mixer(spec_of("linformer"), training, kShape);
  const Tokens tokens = tokens_of(5, grid);
  for (const Kernels kernels : {Kernels::fused, Kernels::reference})
    EXPECT_ERROR(mixer.mix(tokens, grid, kernels), invalid_argument, "25", "31");
  EXPECT_ERROR(mixer.map(tokens, grid), invalid_argument, "25", "31");
}

TEST(LandmarkIdentitiesTest, AttentionCase31NystromWithAllLandmarksIsSoftmax) {
  const TokenGrid grid{1, 4, 6};
  Tokens tokens = tokens_of(6, grid);
  // Peaked maps: an inverse of a nearly singular matrix converges slowly.
  tokens.q = 3 * tokens.q;
  tokens.k = 3 * tokens.k;
  const at::Tensor expected = plain_mixer(spec_of("softmax"), grid, kShape).mix(tokens, grid);
  const auto error = [&](const char* iterations) {
    const model::AttentionSpec spec =
        spec_of("nystrom", {{"landmarks", "24"}, {"iterations", iterations}});
    return relative_error(plain_mixer(spec, grid, kShape).mix(tokens, grid), expected);
  };
  EXPECT_LT(error("60"), 1e-6);
  EXPECT_LT(error("60"), error("6"));
}

}  // namespace landmark_identities_test
}  // namespace hydrascope::testing
