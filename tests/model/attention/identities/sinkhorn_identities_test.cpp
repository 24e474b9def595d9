// The promises of sorted tiles; the twin is held against all options in the conformance suite.
#include "model/attention/sparse/tile_sorting.h"
#include "tests/model/attention/identities/pattern_identities.h"

#include <c10/core/InferenceMode.h>

namespace hydrascope::testing {
namespace sinkhorn_identities_test {

using model::TokenGrid;
using namespace patterns;  // NOLINT(google-build-using-namespace)

/// Three tiles of 3 x 4.
const TokenGrid kThree{2, 3, 12};

TEST(SinkhornIdentitiesTest, SortedTilesAreMixturesOfTheOthers) {
  const c10::InferenceMode inference;
  const Tokens tokens = tokens_of(1, {1, 9, 10});
  const at::Tensor weight = at::eye(4, at::kDouble).repeat({2, 1, 1});
  const auto sorting = model::sort_tiles(tokens.q, tokens.k, weight, {1, 9, 10}, {3, 4}, 64, 0.3);
  ASSERT_EQ(sorting.patches.sizes(), (at::IntArrayRef{9, 12}));
  const at::Tensor& s = sorting.weights;
  EXPECT_TRUE(all_near(s.sum(3), at::ones({2, 2, 9}, at::kDouble), 1e-12));
  EXPECT_TRUE(all_near(s.sum(2), at::ones({2, 2, 9}, at::kDouble), 1e-6))
      << "as balanced as it gets";
  EXPECT_EQ(s.diagonal(0, 2, 3).abs().max().item<double>(), 0);
  EXPECT_GT(s.min().item<double>(), -1e-300);
}

/// The tile of each patch.
at::Tensor tile_of_patches() { return at::arange(36).remainder(12).div(4, "floor"); }

/// Queries of tile t point where the keys of tile t - 1 do, but for some noise.
Tokens pointing_tokens(std::uint64_t seed, double noise) {
  Tokens tokens = tokens_of(seed, kThree);
  const auto set = [&](const at::Tensor& x, const at::Tensor& direction) {
    const at::Tensor patches = x.slice(2, 2);
    patches.copy_(at::eye(4, at::kDouble).index_select(0, direction) + noise * patches);
  };
  set(tokens.q, tile_of_patches());
  set(tokens.k, (tile_of_patches() + 1).remainder(3));
  return tokens;
}

MixerUnderTest sorting_mixer() {
  MixerUnderTest mixer =
      plain_mixer(spec_of("sinkhorn", {{"tile", "3x4"}, {"temperature", "0.01"}}), kThree, kShape);
  mixer.set("sort.weight", at::eye(4).repeat({2, 1, 1}));
  return mixer;
}

TEST(SinkhornIdentitiesTest, ATileSeesTheOneItsQueriesPointTo) {
  const c10::InferenceMode inference;
  const at::Tensor map =
      sorting_mixer().map(pointing_tokens(2, 0.01), kThree).slice(2, 2).slice(3, 2);
  const at::Tensor tile = tile_of_patches();
  const at::Tensor behind = (tile.unsqueeze(1) - tile.unsqueeze(0)).remainder(3);
  EXPECT_GT(map.masked_select(behind.le(1)).min().item<double>(), 1e-3);
  EXPECT_LT(map.masked_select(behind.eq(2)).max().item<double>(), 1e-12);
}

// If sorting is a permutation, the seen tokens are a set: softmax's mass identity holds.
TEST(SinkhornIdentitiesTest, PermutedTilesAreSoftmaxOverTwoOfThem) {
  const c10::InferenceMode inference;
  const Tokens tokens = pointing_tokens(3, 0.3);
  const MixerUnderTest mixer = sorting_mixer();
  constexpr double kLeast = 1e-13;
  const at::Tensor sees = mixer.map(tokens, kThree).slice(2, 2).slice(3, 2).gt(kLeast);
  EXPECT_EQ(sees.sum().item<std::int64_t>(), 2 * 2 * 36 * 24);
  expect_average_of_seen_and_unseen(mixer, tokens, kThree, kLeast);
}

TEST(SinkhornIdentitiesTest, OddGridsAndNarrowValuesAreTheMap) {
  const c10::InferenceMode inference;
  expect_the_map(plain_mixer(spec_of("sinkhorn", {{"tile", "3"}}), kTraining, kShape),
                 {{2, 1, 13}, {2, 13, 1}, {0, 11, 7}, {1, 2, 2}, {3, 0, 0}, {3, 6, 8, 3, 4}});
}

TEST(SinkhornIdentitiesTest, TheCostCountsPairsAndSums) {
  const model::MixerCost cost =
      model::find_mechanism("sinkhorn")
          .cost({kThree, 8, 2, 8, kTraining, 1, 2}, spec_of("sinkhorn", {{"tile", "3x4"}}));
  const double pairs = 2 * 38 + 36 * 2 + 36 * 12 + 36 * 12;
  EXPECT_EQ(cost.pairs, pairs);
  EXPECT_EQ(cost.flops, 4 * 8 * (pairs + 36 * 3));
}

}  // namespace sinkhorn_identities_test
}  // namespace hydrascope::testing
