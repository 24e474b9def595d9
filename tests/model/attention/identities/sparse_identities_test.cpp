// Softmax over some of the tokens: what holds bit for bit whatever the pattern, and what patterns promise
// by layer, seed and picture. The twins are held against all options in the conformance suite.
#include "model/attention/balanced_intervals.h"
#include "model/attention/sparse/tile_sorting.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cctype>
#include <cstdlib>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace sparse_identities_test {

using model::AttentionSpec;
using model::Kernels;
using model::TokenGrid;

const HeadShape kShape{2, 4};
const TokenGrid kTraining{2, 4, 3};
const std::vector<Kernels> kBoth{Kernels::fused, Kernels::reference};

Tokens tokens_of(std::uint64_t seed, const TokenGrid& grid) {
  at::manual_seed(seed);
  return random_tokens(2, grid.num_tokens(), kShape, at::kDouble);
}

std::string test_name(const ::testing::TestParamInfo<AttentionSpec>& parameter) {
  std::string name = describe(parameter.param);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

/// Whoever is seen has a weight.
at::Tensor seen(const at::Tensor& map) { return map.ne(0); }

/// Values of every width are averaged by the map, also the one column of rollouts.
void expect_the_map(const MixerUnderTest& mixer, const std::vector<TokenGrid>& grids) {
  for (const TokenGrid& grid : grids) {
    SCOPED_TRACE(std::to_string(grid.rows) + " x " + std::to_string(grid.columns));
    Tokens tokens = tokens_of(5, grid);
    const at::Tensor map = mixer.map(tokens, grid);
    for (const std::int64_t width : {std::int64_t{1}, kShape.head_dim, std::int64_t{7}}) {
      tokens.v = at::randn({2, 2, grid.num_tokens(), width}, at::kDouble);
      for (const Kernels kernels : kBoth) {
        EXPECT_TRUE(all_near(mixer.mix(tokens, grid, kernels),
                             model::merge_heads(map.matmul(tokens.v)), 1e-12));
      }
    }
  }
}

/// Map, output and gradients of q, k and v.
void expect_softmax(const MixerUnderTest& mixer, const TokenGrid& grid) {
  const MixerUnderTest softmax = plain_mixer(spec_of("softmax"), grid, kShape);
  const Tokens tokens = tokens_of(7, grid).leaves();
  const at::Tensor weights = at::randn({2, grid.num_tokens(), 8}, at::kDouble);
  const auto gradients = [&](const MixerUnderTest& of, Kernels kernels) {
    return torch::autograd::grad({(of.mix(tokens, grid, kernels) * weights).sum()},
                                 {tokens.q, tokens.k, tokens.v});
  };
  EXPECT_TRUE(all_near(mixer.map(tokens, grid), softmax.map(tokens, grid), 1e-12));
  const auto expected = gradients(softmax, Kernels::fused);
  for (const Kernels kernels : kBoth) {
    EXPECT_TRUE(
        all_near(mixer.mix(tokens, grid, kernels), softmax.mix(tokens, grid, kernels), 1e-12));
    const auto found = gradients(mixer, kernels);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(all_near(found[i], expected[i], 1e-12)) << i;
  }
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(all_near(mixer.mix(tokens, grid), softmax.mix(tokens, grid), 1e-12));
}

/// Neither side is a multiple of a window's.
const TokenGrid kGrid{2, 9, 10};

/// Keys change where a pattern does not depend on them.
void expect_unseen_changes_no_bit(const AttentionSpec& spec, const TokenGrid& grid, bool keys) {
  const c10::InferenceMode inference;
  const Tokens tokens = tokens_of(4, grid);
  const MixerUnderTest mixer = plain_mixer(spec, kTraining, kShape);
  const at::Tensor sees = seen(mixer.map(tokens, grid));  // (B, H, N, N)
  for (const Kernels kernels : kBoth) {
    const at::Tensor before = model::split_heads(mixer.mix(tokens, grid, kernels), 2);
    for (const std::int64_t token : {grid.num_prefix, std::int64_t{47}, grid.num_tokens() - 1}) {
      Tokens changed{tokens.q, tokens.k.clone(), tokens.v.clone()};
      if (keys) changed.k.select(2, token).mul_(-3);
      changed.v.select(2, token).add_(100);
      const at::Tensor after = model::split_heads(mixer.mix(changed, grid, kernels), 2);
      EXPECT_TRUE(at::equal(after.eq(before).all(-1), sees.select(3, token).logical_not()))
          << token;
    }
  }
}

class SparseTest : public ::testing::TestWithParam<AttentionSpec> {};

// The cost counts the pairs that are seen.
TEST_P(SparseTest, RowsAreDistributionsOverAsManyKeysAsTheCostCounts) {
  const c10::InferenceMode inference;
  const Tokens tokens = tokens_of(3, kGrid);
  const MixerUnderTest mixer = plain_mixer(GetParam(), kTraining, kShape);
  const at::Tensor map = mixer.map(tokens, kGrid);
  EXPECT_TRUE(all_near(map.sum(-1), at::ones_like(map.select(-1, 0)), 1e-12));
  const at::Tensor sees = seen(map);
  // Shifted heads of `blockwise` do not see themselves.
  EXPECT_TRUE(sees.diagonal(0, 2, 3).any(1).all().item<bool>());
  EXPECT_TRUE(at::equal(sees[0], sees[1]));
  const std::int64_t dim = kShape.num_heads * kShape.head_dim;
  const model::MixerCost cost =
      model::find_mechanism(GetParam().mechanism)
          .cost({kGrid, dim, kShape.num_heads, 8, kTraining, 1, 2}, GetParam());
  EXPECT_EQ(cost.flops, static_cast<double>(4 * kShape.head_dim) * sees[0].sum().item<double>());
}

TEST_P(SparseTest, WhatIsNotSeenChangesNoBit) {
  expect_unseen_changes_no_bit(GetParam(), kGrid, true);
}

// Ragged borders, single rows and columns, no patches, no prefix.
TEST_P(SparseTest, OddGridsAndNarrowValuesAreTheMap) {
  const c10::InferenceMode inference;
  expect_the_map(plain_mixer(GetParam(), kTraining, kShape),
                 {{2, 1, 13}, {2, 13, 1}, {0, 11, 7}, {1, 2, 2}, {3, 0, 0}, {1, 5, 23}});
}

INSTANTIATE_TEST_SUITE_P(
    Patterns, SparseTest,
    ::testing::Values(
        spec_of("window"), spec_of("window", {{"size", "3x5"}}),
        spec_of("window", {{"size", "4"}, {"halo", "1"}}),
        spec_of("window", {{"size", "4x3"}, {"shift", "alternate"}}), spec_of("neighborhood"),
        spec_of("neighborhood", {{"window", "3"}}),
        spec_of("neighborhood", {{"window", "4x2"}, {"border", "clip"}}),
        spec_of("neighborhood", {{"window", "3x2"}, {"dilation", "2"}, {"dilated_heads", "1"}}),
        spec_of("longformer"), spec_of("strided"), spec_of("strided", {{"combine", "rows"}}),
        spec_of("strided", {{"combine", "columns"}}),
        spec_of("window", {{"size", "3"}, {"order", "raster"}}),
        spec_of("strided", {{"band", "1"}}), spec_of("strided", {{"combine", "heads"}}),
        spec_of("fixed", {{"summary", "3"}}),
        spec_of("fixed", {{"block", "4x5"}, {"summary", "4"}}),
        spec_of("fixed", {{"block", "4x5"}, {"summary", "4"}, {"combine", "heads"}}),
        spec_of("blockwise"), spec_of("blockwise", {{"tile", "5"}, {"identity_heads", "1"}}),
        spec_of("bigbird", {{"block", "2"}, {"random_blocks", "4"}, {"random", "head"}})),
    test_name);

TEST(SparseIdentitiesTest, AtTheTrainingSizeNoBitDiffersFromSoftmax) {
  const c10::InferenceMode inference;
  const Tokens tokens = tokens_of(8, kGrid).to(at::kFloat);
  const at::Tensor expected = MixerUnderTest(spec_of("softmax"), kGrid, kShape).mix(tokens, kGrid);
  for (const char* name : {"window", "neighborhood", "fixed", "blockwise"})
    EXPECT_TRUE(
        at::equal(MixerUnderTest(spec_of(name), kGrid, kShape).mix(tokens, kGrid), expected));
}

TEST(SparseIdentitiesTest, BalancedIntervalsDifferByOneAtMost) {
  for (std::int64_t length = 1; length < 60; ++length) {
    for (std::int64_t size = 1; size < 70; ++size) {
      const model::BalancedIntervals intervals{length, size};
      EXPECT_EQ(intervals.begin(0), 0);
      EXPECT_EQ(intervals.begin(intervals.count()), length);
      for (std::int64_t t = 0; t < intervals.count(); ++t) {
        const std::int64_t patches = intervals.begin(t + 1) - intervals.begin(t);
        EXPECT_LE(patches, size);
        EXPECT_LE(std::abs(patches * intervals.count() - length), intervals.count() - 1);
        for (std::int64_t x = intervals.begin(t); x < intervals.begin(t + 1); ++x)
          EXPECT_EQ(intervals.holding(x), t);
      }
    }
  }
}

/// Keys that are seen along a row of `length` patches, by query: (length, length).
at::Tensor along_a_row(const AttentionSpec& spec, std::int64_t length, std::int64_t layer = 1,
                       std::int64_t depth = 2) {
  const TokenGrid grid{0, 1, length};
  torch::nn::Module owner;
  const auto mixer =
      model::find_mechanism(spec.mechanism).make({1, 1, layer, depth, {0, 1, 4}, spec, owner});
  const at::Tensor q = at::zeros({1, 1, length, 1});
  return seen(mixer->attention_rows(q, q, grid, 0, length)[0][0]);
}

at::Tensor blocks_of(const std::vector<std::int64_t>& sizes) {
  std::vector<at::Tensor> blocks;
  for (const std::int64_t size : sizes) blocks.push_back(at::ones({size, size}));
  return at::block_diag(blocks).ne(0);
}

TEST(SparseIdentitiesTest, ShiftedWindowsLieAcrossTheBordersInOddLayers) {
  const AttentionSpec spec = spec_of("window", {{"size", "4"}, {"shift", "alternate"}});
  EXPECT_TRUE(at::equal(along_a_row(spec, 10, 0), blocks_of({3, 3, 4})));
  EXPECT_TRUE(at::equal(along_a_row(spec, 10, 2), blocks_of({3, 3, 4})));
  // The middles of 0 3 6 10.
  EXPECT_TRUE(at::equal(along_a_row(spec, 10, 1), blocks_of({1, 3, 4, 2})));
  EXPECT_TRUE(along_a_row(spec, 4, 1).all().item<bool>());
}

TEST(SparseIdentitiesTest, LongformersWindowsGrowWithDepth) {
  std::vector<std::int64_t> windows;
  for (std::int64_t layer = 0; layer < 5; ++layer) {
    const AttentionSpec spec =
        spec_of("longformer", {{"window_first", "3"}, {"window", "13"}, {"dilation", "1"}});
    windows.push_back(along_a_row(spec, 60, layer, 5)[30].sum().item<std::int64_t>());
  }
  EXPECT_EQ(windows, (std::vector<std::int64_t>{3, 5, 9, 11, 13}));
}

TEST(SparseIdentitiesTest, DrawsOfBigBirdDifferByLayerAndSeedAlone) {
  const auto pattern = [](std::int64_t layer, const char* seed) {
    const AttentionSpec spec =
        spec_of("bigbird",
                {{"block", "1"}, {"window_blocks", "1"}, {"random_blocks", "3"}, {"seed", seed}});
    return along_a_row(spec, 40, layer);
  };
  EXPECT_TRUE(at::equal(pattern(0, "0"), pattern(0, "0")));
  EXPECT_FALSE(at::equal(pattern(0, "0"), pattern(1, "0")));
  EXPECT_FALSE(at::equal(pattern(0, "0"), pattern(0, "1")));
  EXPECT_TRUE(pattern(0, "0").sum(1).eq(4).all().item<bool>());
}

TEST(SparseIdentitiesTest, AnOverviewIsTheTwins) {
  const c10::InferenceMode inference;
  const TokenGrid training{1, 3, 3};
  const TokenGrid grid{1, 6, 8, 3, 4};
  const Tokens tokens = tokens_of(12, grid);
  for (const char* mechanism : {"window", "neighborhood", "strided"}) {
    for (const char* rows : {"plain", "scaled", "learned"}) {
      const AttentionSpec spec = spec_of(mechanism, {{"prefix_rows", rows}});
      const MixerUnderTest mixer(spec, training, kShape);
      mixer.make_exact();
      const at::Tensor expected = mixer.twin(tokens, grid);
      for (const Kernels kernels : kBoth)
        EXPECT_TRUE(all_near(mixer.mix(tokens, grid, kernels), expected, 1e-12))
            << mechanism << " " << rows;
    }
  }
}

// ---- learned spans, registers or the tokens themselves decide what a patch sees

/// Two of the prefix tokens are registers.
const TokenGrid kRegisters{3, 9, 10, 0, 0, 2};

class FoundTest : public ::testing::TestWithParam<AttentionSpec> {};

TEST_P(FoundTest, ValuesThatAreNotSeenChangeNoBit) {
  expect_unseen_changes_no_bit(GetParam(), kRegisters, false);
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

TEST(SinkhornIdentitiesTest, OddGridsAndNarrowValuesAreTheMap) {
  const c10::InferenceMode inference;
  expect_the_map(plain_mixer(spec_of("sinkhorn", {{"tile", "3"}}), kTraining, kShape),
                 {{2, 1, 13}, {2, 13, 1}, {0, 11, 7}, {1, 2, 2}, {3, 0, 0}, {3, 6, 8, 3, 4}});
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

TEST(FoundIdentitiesTest, EtcAndItsGradientsAreTheTwinsWithRegisters) {
  for (const TokenGrid& grid : {kRegisters, TokenGrid{7, 5, 4, 0, 0, 6}}) {
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
      for (const Kernels kernels : kBoth) {
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

TEST(FoundIdentitiesTest, HashesDifferByLayerAndSeedAlone) {
  const c10::InferenceMode inference;
  const Tokens tokens = tokens_of(12, kRegisters);
  const auto sees = [&](std::int64_t layer, const char* seed) {
    torch::nn::Module owner;
    const AttentionSpec spec = spec_of("reformer", {{"bucket", "8"}, {"seed", seed}});
    const auto mixer =
        model::find_mechanism("reformer").make({2, 4, layer, 4, kTraining, spec, owner});
    return seen(mixer->attention_rows(tokens.q, tokens.k, kRegisters, 0, kRegisters.num_tokens()));
  };
  EXPECT_TRUE(at::equal(sees(0, "0"), sees(0, "0")));
  EXPECT_FALSE(at::equal(sees(0, "0"), sees(1, "0")));
  EXPECT_FALSE(at::equal(sees(0, "0"), sees(0, "1")));
}

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

TEST(SinkhornIdentitiesTest, TheCostCountsPairsAndSums) {
  const TokenGrid grid{2, 3, 12};  // three tiles
  const model::MixerCost cost =
      model::find_mechanism("sinkhorn")
          .cost({grid, 8, 2, 8, kTraining, 1, 2}, spec_of("sinkhorn", {{"tile", "3x4"}}));
  const double pairs = 2 * 38 + 36 * 2 + 36 * 12 + 36 * 12;
  EXPECT_EQ(cost.pairs, pairs);
  EXPECT_EQ(cost.flops, 4 * 8 * (pairs + 36 * 3));
}

}  // namespace sparse_identities_test
}  // namespace hydrascope::testing
