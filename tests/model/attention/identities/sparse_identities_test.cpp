// The identities of softmax over some of the tokens, whatever the pattern, and what the patterns
// themselves promise. The twins are held against all options in the conformance suite.
#include "model/attention/balanced_intervals.h"
#include "tests/model/attention/identities/pattern_identities.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::testing {
namespace sparse_identities_test {

using model::AttentionSpec;
using model::Kernels;
using model::TokenGrid;

using namespace patterns;  // NOLINT(google-build-using-namespace)

/// Neither side is a multiple of a window's.
const TokenGrid kGrid{2, 9, 10};

class SparseTest : public ::testing::TestWithParam<AttentionSpec> {};

// T2
TEST_P(SparseTest, SoftmaxIsTheAverageOfWhatIsSeenAndWhatIsNot) {
  const c10::InferenceMode inference;
  expect_average_of_seen_and_unseen(plain_mixer(GetParam(), kTraining, kShape), tokens_of(1, kGrid),
                                    kGrid);
}

// T4
TEST_P(SparseTest, PrefixTokensSeeAllAndAreSeenByAll) {
  const c10::InferenceMode inference;
  const Tokens tokens = tokens_of(2, kGrid);
  const MixerUnderTest mixer = plain_mixer(GetParam(), kTraining, kShape);
  const MixerUnderTest softmax = plain_mixer(spec_of("softmax"), kTraining, kShape);
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    EXPECT_TRUE(all_near(mixer.mix(tokens, kGrid, kernels).narrow(1, 0, 2),
                         softmax.mix(tokens, kGrid).narrow(1, 0, 2), 1e-12));
  }
  EXPECT_TRUE(seen(mixer.map(tokens, kGrid)).narrow(3, 0, 2).all().item<bool>());
}

// T5: the cost counts the pairs that are seen.
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

// T6, T9
TEST_P(SparseTest, WhatIsNotSeenChangesNoBit) {
  const c10::InferenceMode inference;
  const Tokens tokens = tokens_of(4, kGrid);
  const MixerUnderTest mixer = plain_mixer(GetParam(), kTraining, kShape);
  const at::Tensor sees = seen(mixer.map(tokens, kGrid))[0];  // (H, N, N)
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    const at::Tensor before = model::split_heads(mixer.mix(tokens, kGrid, kernels), 2);
    for (const std::int64_t token : {std::int64_t{2}, std::int64_t{47}, kGrid.num_tokens() - 1}) {
      Tokens changed{tokens.q, tokens.k.clone(), tokens.v.clone()};
      changed.k.select(2, token).mul_(-3);
      changed.v.select(2, token).add_(100);
      const at::Tensor after = model::split_heads(mixer.mix(changed, kGrid, kernels), 2);
      const at::Tensor same = after.eq(before).all(-1);  // (B, H, N)
      const at::Tensor expected = sees.select(2, token).logical_not();
      EXPECT_TRUE(at::equal(same, expected.unsqueeze(0).expand_as(same))) << token;
    }
  }
}

// T7, T9: ragged borders, single rows and columns, no patches, no prefix.
TEST_P(SparseTest, OddGridsAndNarrowValuesAreTheMap) {
  const c10::InferenceMode inference;
  expect_the_map(plain_mixer(GetParam(), kTraining, kShape),
                 {{2, 1, 13}, {2, 13, 1}, {0, 11, 7}, {1, 2, 2}, {3, 0, 0}, {1, 5, 23}});
}

const std::vector<AttentionSpec> kSymmetric{
    spec_of("window"),
    spec_of("window", {{"size", "3x5"}}),
    spec_of("window", {{"size", "4"}, {"halo", "1"}}),
    spec_of("window", {{"size", "4x3"}, {"shift", "alternate"}}),
    spec_of("neighborhood"),
    spec_of("neighborhood", {{"window", "3"}}),
    spec_of("neighborhood", {{"window", "4x2"}, {"border", "clip"}}),
    spec_of("neighborhood", {{"window", "3x2"}, {"dilation", "2"}, {"dilated_heads", "1"}}),
    spec_of("longformer"),
    spec_of("strided"),
    spec_of("strided", {{"combine", "rows"}}),
    spec_of("strided", {{"combine", "columns"}}),
};

/// Those that read the picture line by line, or number its tiles so.
const std::vector<AttentionSpec> kOthers{
    spec_of("window", {{"size", "3"}, {"order", "raster"}}),
    spec_of("strided", {{"band", "1"}}),
    spec_of("strided", {{"combine", "heads"}}),
    spec_of("fixed", {{"summary", "3"}}),
    spec_of("fixed", {{"block", "4x5"}, {"summary", "4"}}),
    spec_of("fixed", {{"block", "4x5"}, {"summary", "4"}, {"combine", "heads"}}),
    spec_of("blockwise"),
    spec_of("blockwise", {{"tile", "5"}, {"identity_heads", "1"}}),
    spec_of("bigbird", {{"block", "2"}, {"random_blocks", "4"}, {"random", "head"}}),
};

INSTANTIATE_TEST_SUITE_P(Symmetric, SparseTest, ::testing::ValuesIn(kSymmetric), test_name);
INSTANTIATE_TEST_SUITE_P(Others, SparseTest, ::testing::ValuesIn(kOthers), test_name);

/// The same options with rows and columns exchanged.
AttentionSpec transposed(AttentionSpec spec) {
  for (auto& [key, value] : spec.options) {
    if (const auto cross = value.find('x'); cross != std::string::npos)
      value = value.substr(cross + 1) + "x" + value.substr(0, cross);
    if (key == "combine" && value != "merged") value = value == "rows" ? "columns" : "rows";
  }
  return spec;
}

// T8
class SymmetricTest : public SparseTest {};

TEST_P(SymmetricTest, TransposingThePictureTransposesTheOutput) {
  const c10::InferenceMode inference;
  const Tokens tokens = tokens_of(6, kGrid);
  const TokenGrid turned{kGrid.num_prefix, kGrid.columns, kGrid.rows};
  const at::Tensor index = at::arange(kGrid.num_tokens());
  const at::Tensor order =
      at::cat({index.narrow(0, 0, 2), index.narrow(0, 2, 90).view({9, 10}).t().flatten()});
  const at::Tensor y = plain_mixer(GetParam(), kTraining, kShape).mix(tokens, kGrid);
  const MixerUnderTest other =
      plain_mixer(transposed(GetParam()), {2, kTraining.columns, kTraining.rows}, kShape);
  EXPECT_TRUE(all_near(other.mix(tokens.tokens(order), turned), y.index_select(1, order), 1e-12));
}

INSTANTIATE_TEST_SUITE_P(Patterns, SymmetricTest, ::testing::ValuesIn(kSymmetric), test_name);

class CoverTest : public ::testing::TestWithParam<AttentionSpec> {};

// T1
TEST_P(CoverTest, IsSoftmaxWithItsGradients) {
  expect_softmax(plain_mixer(GetParam(), kGrid, kShape), kGrid);
}

INSTANTIATE_TEST_SUITE_P(
    Options, CoverTest,
    ::testing::Values(spec_of("window"), spec_of("window", {{"size", "10"}}),
                      spec_of("window", {{"size", "2"}, {"halo", "9"}}),
                      spec_of("window", {{"prefix_rows", "learned"}}),
                      spec_of("window", {{"shift", "alternate"}}), spec_of("neighborhood"),
                      spec_of("neighborhood", {{"window", "9x10"}}),
                      spec_of("neighborhood", {{"window", "20"}, {"border", "clip"}}),
                      spec_of("window", {{"order", "raster"}}),
                      spec_of("longformer", {{"window", "20"}, {"dilation", "1"}}),
                      spec_of("strided", {{"band", "8"}}), spec_of("fixed"),
                      spec_of("fixed", {{"block", "2"}, {"summary", "4"}}), spec_of("blockwise"),
                      spec_of("bigbird", {{"window_blocks", "5"}}),
                      spec_of("bigbird", {{"block", "3"}, {"random_blocks", "12"}})),
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

TEST(SparseIdentitiesTest, NeighbourhoodsShiftInwardsOrAreClipped) {
  const auto firsts_and_counts = [](const at::Tensor& sees) {
    std::vector<std::pair<std::int64_t, std::int64_t>> list;
    for (const at::Tensor& row : sees.unbind())
      list.emplace_back(row.nonzero().min().item<std::int64_t>(), row.sum().item<std::int64_t>());
    return list;
  };
  using Rows = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const AttentionSpec shift = spec_of("neighborhood", {{"window", "3"}});
  EXPECT_EQ(firsts_and_counts(along_a_row(shift, 6)),
            (Rows{{0, 3}, {0, 3}, {1, 3}, {2, 3}, {3, 3}, {3, 3}}));
  const AttentionSpec clip = spec_of("neighborhood", {{"window", "3"}, {"border", "clip"}});
  EXPECT_EQ(firsts_and_counts(along_a_row(clip, 6)),
            (Rows{{0, 2}, {0, 3}, {1, 3}, {2, 3}, {3, 3}, {4, 2}}));
  const AttentionSpec dilated = spec_of("neighborhood", {{"window", "3"}, {"dilation", "2"}});
  EXPECT_EQ(firsts_and_counts(along_a_row(dilated, 8)),
            (Rows{{0, 3}, {1, 3}, {0, 3}, {1, 3}, {2, 3}, {3, 3}, {2, 3}, {3, 3}}));
  // Phases do not mix.
  const at::Tensor parity = at::arange(8).remainder(2);
  EXPECT_FALSE(along_a_row(dilated, 8)
                   .logical_and(parity.unsqueeze(0).ne(parity.unsqueeze(1)))
                   .any()
                   .item<bool>());
}

TEST(SparseIdentitiesTest, NeighbourhoodsMoveWithThePicture) {
  const c10::InferenceMode inference;
  const TokenGrid grid{1, 12, 11};
  const Tokens tokens = tokens_of(9, grid);
  // Every token takes what the one above and to the left of it had.
  const at::Tensor patches = at::arange(12 * 11).view({12, 11});
  const at::Tensor order =
      at::cat({at::zeros({1}, at::kLong), 1 + patches.roll({1, 1}, {0, 1}).flatten()});
  for (const AttentionSpec& spec :
       {spec_of("neighborhood", {{"window", "3"}}),
        spec_of("neighborhood", {{"window", "3"}, {"border", "clip"}}),
        spec_of("neighborhood", {{"window", "2"}, {"dilation", "2"}})}) {
    const MixerUnderTest mixer = plain_mixer(spec, grid, kShape);
    const auto inside = [&](const Tokens& of, std::int64_t first) {
      return mixer.mix(of, grid)
          .slice(1, 1)
          .unflatten(1, {12, 11})
          .narrow(1, first, 6)
          .narrow(2, first, 5);
    };
    EXPECT_TRUE(all_near(inside(tokens.tokens(order), 4), inside(tokens, 3), 1e-12))
        << describe(spec);
  }
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

TEST(SparseIdentitiesTest, TwoLayersOfStridedJoinAllPatches) {
  torch::nn::Module owner;
  const auto mixer =
      model::find_mechanism("strided").make({1, 1, 0, 2, kTraining, spec_of("strided"), owner});
  const TokenGrid grid{0, 9, 10};
  const at::Tensor q = at::zeros({1, 1, 90, 1});
  const at::Tensor once = mixer->attention_rows(q, q, grid, 0, 90)[0][0];
  EXPECT_EQ(once[0].ne(0).sum().item<std::int64_t>(), 9 + 10 - 1);
  EXPECT_TRUE(once.matmul(once).ne(0).all().item<bool>());
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

TEST(SparseIdentitiesTest, LayersOfNeighbourhoodsReachHalfAWindowEach) {
  const at::Tensor once = along_a_row(spec_of("neighborhood", {{"window", "5"}}), 40);
  at::Tensor reached = at::eye(40);
  for (std::int64_t layers = 1; layers < 5; ++layers) {
    reached = once.to(at::kFloat).matmul(reached);
    const std::int64_t keys = reached[20].ne(0).sum().item<std::int64_t>();
    EXPECT_EQ(keys, 2 * 2 * layers + 1) << layers;
  }
}

// N / N_train is 15 / 6 here, in numbers that are easy to check by hand.
TEST(SparseIdentitiesTest, LogitScaleSharpensRowsThatSeeAllTokens) {
  const c10::InferenceMode inference;
  const TokenGrid training{1, 1, 5};
  const TokenGrid grid{1, 2, 7};
  const Tokens tokens = tokens_of(10, grid);
  const double factor = std::log(15.0) / std::log(6.0);
  const at::Tensor scores = tokens.q.matmul(tokens.k.mT()) / 2;
  const at::Tensor sharper = at::softmax(factor * scores, -1);
  const AttentionSpec log = spec_of("softmax", {{"logit_scale", "log"}});
  const MixerUnderTest softmax = plain_mixer(log, training, kShape);
  EXPECT_TRUE(all_near(softmax.map(tokens, grid), sharper, 1e-12));
  const MixerUnderTest window =
      plain_mixer(spec_of("window", {{"prefix_rows", "scaled"}}), training, kShape);
  const MixerUnderTest plain = plain_mixer(spec_of("window"), training, kShape);
  const at::Tensor map = window.map(tokens, grid);
  EXPECT_TRUE(all_near(map.narrow(2, 0, 1), sharper.narrow(2, 0, 1), 1e-12));
  EXPECT_TRUE(at::equal(map.slice(2, 1), plain.map(tokens, grid).slice(2, 1)));
  // At the size of training, and below it, the published model.
  for (const TokenGrid& smaller : {training, TokenGrid{1, 1, 3}}) {
    const Tokens few = tokens_of(11, smaller);
    EXPECT_TRUE(at::equal(softmax.mix(few, smaller),
                          plain_mixer(spec_of("softmax"), training, kShape).mix(few, smaller)));
  }
}

// A prefix token sees the picture twice, and both copies weigh the same to it.
TEST(SparseIdentitiesTest, OverviewIsAWindowAndWeighsAsMuchAsThePicture) {
  const c10::InferenceMode inference;
  const TokenGrid training{1, 3, 3};
  const TokenGrid grid{1, 6, 8, 3, 4};
  const Tokens tokens = tokens_of(12, grid);
  const auto map_of = [&](const char* rows) {
    return plain_mixer(spec_of("window", {{"prefix_rows", rows}}), training, kShape)
        .map(tokens, grid);
  };
  const at::Tensor map = map_of("plain");
  const TokenGrid native{1, 6, 8};
  const at::Tensor without = plain_mixer(spec_of("window"), training, kShape)
                                 .map(tokens.tokens(at::arange(native.num_tokens())), native);
  EXPECT_TRUE(all_near(map.narrow(2, 1, 48).narrow(3, 0, 49), without.slice(2, 1), 1e-12));
  EXPECT_TRUE(seen(map.narrow(2, 1, 48).slice(3, 49)).logical_not().all().item<bool>());
  // Patches of the overview see each other and the prefix: softmax of a picture of that size.
  const at::Tensor of_overview = at::cat({at::arange(1), at::arange(49, 61)});
  const TokenGrid alone{1, 3, 4};
  const at::Tensor softmax =
      plain_mixer(spec_of("softmax"), training, kShape).map(tokens.tokens(of_overview), alone);
  EXPECT_TRUE(all_near(map.slice(2, 49).index_select(3, of_overview), softmax.slice(2, 1), 1e-12));
  EXPECT_TRUE(seen(map.slice(2, 49).narrow(3, 1, 48)).logical_not().all().item<bool>());
  // Equal keys: as many patches as the picture has lie in each copy.
  Tokens equal = tokens;
  equal.k = equal.k.narrow(2, 0, 1).expand_as(equal.k);
  const at::Tensor row =
      plain_mixer(spec_of("window", {{"prefix_rows", "scaled"}}), training, kShape)
          .map(equal, grid)
          .select(2, 0);
  EXPECT_TRUE(all_near(row.slice(2, 49).sum(-1), row.narrow(2, 1, 48).sum(-1), 1e-12));
  for (const char* mechanism : {"window", "neighborhood", "strided"}) {
    for (const char* rows : {"plain", "scaled", "learned"}) {
      const AttentionSpec spec = spec_of(mechanism, {{"prefix_rows", rows}});
      const MixerUnderTest mixer(spec, training, kShape);
      mixer.make_exact();
      const at::Tensor expected = mixer.twin(tokens, grid);
      for (const Kernels kernels : {Kernels::fused, Kernels::reference})
        EXPECT_TRUE(all_near(mixer.mix(tokens, grid, kernels), expected, 1e-12))
            << mechanism << " " << rows;
    }
  }
}

}  // namespace sparse_identities_test
}  // namespace hydrascope::testing
