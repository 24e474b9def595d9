// Softmax over what learned spans, registers or the tokens themselves let a patch see: what it has in
// common with softmax over all, and what each mechanism promises. The twins are held against all options
// in the conformance suite.
#include "tests/model/attention/identities/pattern_identities.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

namespace hydrascope::testing {
namespace found_identities_test {

using model::AttentionSpec;
using model::Kernels;
using model::TokenGrid;

using namespace patterns;  // NOLINT(google-build-using-namespace)

/// Neither side is a multiple of a cell's or a window's; two of the prefix tokens are registers.
const TokenGrid kGrid{3, 9, 10, 0, 0, 2};

class FoundTest : public ::testing::TestWithParam<AttentionSpec> {};

TEST_P(FoundTest, SoftmaxIsTheAverageOfWhatIsSeenAndWhatIsNot) {
  const c10::InferenceMode inference;
  expect_average_of_seen_and_unseen(plain_mixer(GetParam(), kTraining, kShape), tokens_of(1, kGrid),
                                    kGrid);
}

TEST_P(FoundTest, RowsAreDistributionsThatHoldThePrefixAndThemselves) {
  const c10::InferenceMode inference;
  const Tokens tokens = tokens_of(2, kGrid);
  const at::Tensor map = plain_mixer(GetParam(), kTraining, kShape).map(tokens, kGrid);
  EXPECT_TRUE(all_near(map.sum(-1), at::ones_like(map.select(-1, 0)), 1e-12));
  EXPECT_TRUE(seen(map).narrow(2, 0, 1).all().item<bool>()) << "the class token sees all";
  EXPECT_TRUE(seen(map).narrow(3, 0, 1).all().item<bool>()) << "and is seen by all";
  EXPECT_TRUE(seen(map).diagonal(0, 2, 3).all().item<bool>());
}

TEST_P(FoundTest, ValuesThatAreNotSeenChangeNoBit) {
  const c10::InferenceMode inference;
  const Tokens tokens = tokens_of(3, kGrid);
  const MixerUnderTest mixer = plain_mixer(GetParam(), kTraining, kShape);
  const at::Tensor sees = seen(mixer.map(tokens, kGrid));  // (B, H, N, N)
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    const at::Tensor before = model::split_heads(mixer.mix(tokens, kGrid, kernels), 2);
    for (const std::int64_t token : {std::int64_t{3}, std::int64_t{47}, kGrid.num_tokens() - 1}) {
      Tokens changed{tokens.q, tokens.k, tokens.v.clone()};
      changed.v.select(2, token).add_(100);
      const at::Tensor after = model::split_heads(mixer.mix(changed, kGrid, kernels), 2);
      EXPECT_TRUE(at::equal(after.eq(before).all(-1), sees.select(3, token).logical_not()))
          << token;
    }
  }
}

// Ragged borders, single rows and columns, no patches, no prefix, an overview.
TEST_P(FoundTest, OddGridsAndNarrowValuesAreTheMap) {
  const c10::InferenceMode inference;
  expect_the_map(plain_mixer(GetParam(), kTraining, kShape), {{2, 1, 13},
                                                              {2, 13, 1, 0, 0, 1},
                                                              {0, 11, 7},
                                                              {1, 2, 2},
                                                              {3, 0, 0, 0, 0, 2},
                                                              {6, 5, 23, 0, 0, 5},
                                                              {3, 6, 8, 3, 4, 2}});
}

INSTANTIATE_TEST_SUITE_P(
    Options, FoundTest,
    ::testing::Values(spec_of("etc", {{"window", "3"}}),
                      spec_of("etc", {{"window", "4x3"}, {"border", "clip"}}),
                      spec_of("etc", {{"window", "3"}, {"regions", "off"}}),
                      spec_of("reformer", {{"bucket", "8"}}),
                      spec_of("reformer", {{"bucket", "5"}, {"rounds", "3"}, {"seed", "2"}}),
                      spec_of("routing"), spec_of("routing", {{"local_heads", "0"}}),
                      spec_of("routing", {{"clusters", "12"}, {"steps", "1"}})),
    test_name);

class WholeTest : public ::testing::TestWithParam<AttentionSpec> {};

TEST_P(WholeTest, IsSoftmaxWithItsGradients) {
  const TokenGrid grid{2, 9, 10};
  const MixerUnderTest mixer = plain_mixer(GetParam(), grid, kShape);
  if (GetParam().mechanism == "adaptive_span" && !GetParam().options.contains("dynamic"))
    mixer.set("span.length", at::ones({2}));
  expect_softmax(mixer, grid);
}

INSTANTIATE_TEST_SUITE_P(
    Options, WholeTest,
    ::testing::Values(spec_of("etc"), spec_of("etc", {{"window", "20"}, {"border", "clip"}}),
                      spec_of("adaptive_span"), spec_of("reformer", {{"bucket", "0"}}),
                      spec_of("sinkhorn"), spec_of("sinkhorn", {{"tile", "9x5"}}),
                      spec_of("routing", {{"clusters", "1"}, {"local_heads", "0"}}),
                      spec_of("routing",
                              {{"clusters", "1"}, {"window", "10"}, {"local_heads", "0.5"}})),
    test_name);

TEST(FoundIdentitiesTest, AnUntrainedDynamicSpanIsSoftmaxAtTheTrainingSize) {
  const c10::InferenceMode inference;
  const TokenGrid grid{1, 14, 14};
  const MixerUnderTest mixer =
      plain_mixer(spec_of("adaptive_span", {{"dynamic", "on"}}), grid, kShape);
  mixer.set("span.weight", at::zeros({2, 4}));
  mixer.set("span.bias", at::full({2}, 4.0));
  const Tokens tokens = tokens_of(6, grid);
  const MixerUnderTest softmax = plain_mixer(spec_of("softmax"), grid, kShape);
  EXPECT_TRUE(all_near(mixer.mix(tokens, grid), softmax.mix(tokens, grid), 1e-12));
}

// Equal scores: a row of the map is m over its sum, m of the distances along a row of patches.
TEST(FoundIdentitiesTest, SpansEndInARamp) {
  const c10::InferenceMode inference;
  const TokenGrid grid{0, 1, 12};
  const MixerUnderTest mixer =
      plain_mixer(spec_of("adaptive_span", {{"max", "4"}, {"ramp", "2"}}), grid, {1, 4});
  mixer.set("span.length", at::full({1}, 0.625));  // z = 2.5
  const at::Tensor zeros = at::zeros({1, 1, 12, 4}, at::kDouble);
  const at::Tensor row = mixer.map({zeros, zeros, zeros}, grid)[0][0][6];
  // Distances 0 to 2: 1; 3: 0.75; 4: 0.25; from 5 on: 0.
  const at::Tensor m = at::tensor({0.0, 0.0, 0.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 0.75, 0.25, 0.0});
  EXPECT_TRUE(all_near(row, m / m.sum(), 1e-12));
}

TEST(FoundIdentitiesTest, ThePenaltyIsTheMeanSpanAndShortensIt) {
  const MixerUnderTest mixer =
      plain_mixer(spec_of("adaptive_span", {{"penalty", "0.5"}}), kTraining, kShape);
  mixer.set("span.length", at::tensor({0.25, 1.5}));
  const at::Tensor penalty = mixer.mixer().penalty();
  EXPECT_NEAR(penalty.item<double>(), 0.5 * (0.25 + 1.5) / 2, 1e-12);
  const at::Tensor gradient = torch::autograd::grad({penalty}, {mixer.tensor("span.length")})[0];
  EXPECT_TRUE(all_near(gradient, at::full({2}, 0.25, at::kDouble), 1e-12)) << "beyond 1 as well";
  const MixerUnderTest without =
      plain_mixer(spec_of("adaptive_span", {{"penalty", "0"}}), kTraining, kShape);
  EXPECT_FALSE(without.mixer().penalty().defined());
  EXPECT_FALSE(plain_mixer(spec_of("window"), kTraining, kShape).mixer().penalty().defined());
}

// Four registers of a 4 x 4 picture: its quarters.
TEST(FoundIdentitiesTest, RegistersOfEtcSeeTheirRegions) {
  const c10::InferenceMode inference;
  const TokenGrid grid{5, 4, 4, 0, 0, 4};
  const MixerUnderTest mixer = plain_mixer(spec_of("etc", {{"window", "3"}}), grid, kShape);
  const at::Tensor sees = seen(mixer.map(tokens_of(7, grid), grid))[0][0];
  for (std::int64_t r = 0; r < 4; ++r) {
    for (std::int64_t patch = 0; patch < 16; ++patch) {
      const bool is_own = patch / 8 == r / 2 && patch % 4 / 2 == r % 2;
      EXPECT_EQ(sees[1 + r][5 + patch].item<bool>(), is_own) << r << " " << patch;
      EXPECT_EQ(sees[5 + patch][1 + r].item<bool>(), is_own) << r << " " << patch;
    }
  }
  EXPECT_TRUE(sees.narrow(0, 0, 5).narrow(1, 0, 5).all().item<bool>()) << "global to global";
  EXPECT_EQ(sees[5 + 5].slice(0, 5).sum().item<std::int64_t>(), 9) << "3 x 3 patches";
}

TEST(FoundIdentitiesTest, EtcAndItsGradientsAreTheTwinsWithRegisters) {
  for (const TokenGrid& grid : {kGrid, TokenGrid{7, 5, 4, 0, 0, 6}}) {
    for (const char* regions : {"on", "off"}) {
      const MixerUnderTest mixer =
          plain_mixer(spec_of("etc", {{"window", "3"}, {"regions", regions}}), kTraining, kShape);
      const Tokens tokens = tokens_of(8, grid).leaves();
      const at::Tensor weights = at::randn({2, grid.num_tokens(), 8}, at::kDouble);
      const at::Tensor expected = mixer.twin(tokens, grid);
      const auto of = [&](const at::Tensor& y) {
        return torch::autograd::grad({(y * weights).sum()}, {tokens.q, tokens.k, tokens.v});
      };
      const auto wanted = of(expected);
      for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
        const at::Tensor y = mixer.mix(tokens, grid, kernels);
        EXPECT_TRUE(all_near(y, expected, 1e-12));
        const auto found = of(y);
        for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(all_near(found[i], wanted[i], 1e-12)) << i;
      }
      const std::int64_t dim = kShape.num_heads * kShape.head_dim;
      const AttentionSpec spec = spec_of("etc", {{"window", "3"}, {"regions", regions}});
      const double flops = model::find_mechanism("etc")
                               .cost({grid, dim, kShape.num_heads, 8, kTraining, 1, 2}, spec)
                               .flops;
      EXPECT_EQ(flops, static_cast<double>(4 * kShape.head_dim) *
                           seen(mixer.map(tokens, grid))[0].sum().item<double>());
    }
  }
}

// All rounds together are one softmax: a pair that two of them hold counts once.
TEST(FoundIdentitiesTest, RoundsOfReformerAreOneSoftmaxOverTheirUnion) {
  const c10::InferenceMode inference;
  const Tokens tokens = tokens_of(9, kGrid);
  const auto map_of = [&](const char* rounds) {
    return plain_mixer(spec_of("reformer", {{"bucket", "8"}, {"rounds", rounds}}), kTraining,
                       kShape)
        .map(tokens, kGrid);
  };
  const at::Tensor one = seen(map_of("1"));
  const at::Tensor more = seen(map_of("4"));
  EXPECT_TRUE(more.logical_or(one.logical_not()).all().item<bool>());
  EXPECT_GT(more.sum().item<double>(), 1.2 * one.sum().item<double>());
}

TEST(FoundIdentitiesTest, WithSharedQueriesAPatchOfReformerSeesItselfOnlyWhenItIsAlone) {
  const c10::InferenceMode inference;
  const AttentionSpec spec = spec_of("reformer", {{"bucket", "4"}, {"share_qk", "on"}});
  const Tokens tokens = tokens_of(10, kGrid);
  const at::Tensor map = plain_mixer(spec, kTraining, kShape).map(tokens, kGrid);
  EXPECT_EQ(map.diagonal(0, 2, 3).max().item<double>(), 0) << "there is a prefix";
  const TokenGrid alone{0, 1, 1};
  const Tokens one = tokens_of(11, alone);
  EXPECT_TRUE(all_near(plain_mixer(spec, kTraining, kShape).mix(one, alone),
                       model::merge_heads(one.v), 1e-12));
}

TEST(FoundIdentitiesTest, HashesDifferByLayerAndSeedAlone) {
  const c10::InferenceMode inference;
  const Tokens tokens = tokens_of(12, kGrid);
  const auto sees = [&](std::int64_t layer, const char* seed) {
    torch::nn::Module owner;
    const AttentionSpec spec = spec_of("reformer", {{"bucket", "8"}, {"seed", seed}});
    const auto mixer =
        model::find_mechanism("reformer").make({2, 4, layer, 4, kTraining, spec, owner});
    return seen(mixer->attention_rows(tokens.q, tokens.k, kGrid, 0, kGrid.num_tokens()));
  };
  EXPECT_TRUE(at::equal(sees(0, "0"), sees(0, "0")));
  EXPECT_FALSE(at::equal(sees(0, "0"), sees(1, "0")));
  EXPECT_FALSE(at::equal(sees(0, "0"), sees(0, "1")));
}

// Keys in bundles around orthogonal directions: each query sees the bundle that it points to.
TEST(FoundIdentitiesTest, ClustersOfRoutingAreTheBundlesOfTheKeys) {
  const c10::InferenceMode inference;
  const TokenGrid grid{1, 4, 8};
  at::manual_seed(13);
  const at::Tensor directions =
      5 * at::eye(4, at::kDouble).index_select(0, at::arange(32).remainder(4));
  Tokens tokens = random_tokens(1, 33, {1, 4}, at::kDouble);
  tokens.k.slice(2, 1).copy_(directions + 0.01 * tokens.k.slice(2, 1));
  tokens.q.slice(2, 1).copy_(directions.roll(1, 0));
  const AttentionSpec spec = spec_of("routing", {{"clusters", "4"}, {"local_heads", "0"}});
  const at::Tensor sees = seen(plain_mixer(spec, grid, {1, 4}).map(tokens, grid))[0][0];
  for (std::int64_t i = 0; i < 32; ++i) {
    for (std::int64_t j = 0; j < 32; ++j)
      EXPECT_EQ(sees[1 + i][1 + j].item<bool>(), i == j || (i + 3) % 4 == j % 4) << i << " " << j;
  }
}

// LayerNorm's output has mean and deviation of its bias and weight.
TEST(FoundIdentitiesTest, PostNormOfHydraNormalisesTheOutput) {
  const c10::InferenceMode inference;
  const TokenGrid grid{1, 4, 6};
  const MixerUnderTest mixer = plain_mixer(spec_of("hydra", {{"post_norm", "on"}}), grid, kShape);
  const MixerUnderTest plain = plain_mixer(spec_of("hydra"), grid, kShape);
  mixer.set("post_norm.weight", at::ones({8}));
  mixer.set("post_norm.bias", at::zeros({8}));
  const Tokens tokens = tokens_of(14, grid);
  const at::Tensor expected = plain.mix(tokens, grid);
  EXPECT_TRUE(
      all_near(mixer.mix(tokens, grid), at::layer_norm(expected, {8}, {}, {}, 1e-6), 1e-12));
}

}  // namespace found_identities_test
}  // namespace hydrascope::testing
