// Every registry entry's declarations about its attention map and its symmetries, measured on
// all of its options in double precision.
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/attention/registry_cases.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace {

using model::AttentionSpec;
using model::Kernels;
using model::MechanismEntry;
using model::TokenGrid;

class ConformanceMapTest : public RegistryCase {};

Tokens exact_tokens(const TokenGrid& grid, std::int64_t batch = 2) {
  return random_tokens(batch, grid.num_tokens(), {}, at::kDouble);
}

MixerUnderTest exact_mixer(const AttentionSpec& spec, const TokenGrid& training_grid) {
  MixerUnderTest mixer(spec, training_grid);
  mixer.make_exact();
  return mixer;
}

/// Weights of one row sum to 1, or to 0 where a query gives none to any key (ReLU-like maps).
void expect_rows_sum_to_one(const at::Tensor& map) {
  const at::Tensor sum = map.sum(-1);
  const at::Tensor without_weight = map.abs().amax(-1).eq(0);
  const at::Tensor error = at::where(without_weight, sum, sum - 1).abs();
  EXPECT_LT(error.max().item<double>(), 1e-3);
  EXPECT_LT(error.median().item<double>(), 1e-5);
}

TEST_P(ConformanceMapTest, RowsOfTheMapAreTheFunction) {
  const c10::InferenceMode inference;
  const TokenGrid grid{2, 5, 7};
  double least_weight = 0;
  for (const AttentionSpec& spec : variants(entry())) {
    if (has_local_term(spec)) continue;
    SCOPED_TRACE(describe(spec));
    at::manual_seed(1);
    const MixerUnderTest mixer = exact_mixer(spec, grid);
    const Tokens tokens = exact_tokens(grid);
    const at::Tensor map = mixer.map(tokens, grid);
    ASSERT_EQ(map.defined(), entry().has_map);
    if (!map.defined()) continue;
    const std::int64_t n = grid.num_tokens();
    ASSERT_EQ(map.sizes(), (at::IntArrayRef{2, tokens.q.size(1), n, n}));
    const at::Tensor y = model::merge_heads(map.matmul(tokens.v));
    EXPECT_LT(relative_error(y, mixer.mix(tokens, grid)), 1e-9);
    if (has_twin(entry().name)) {
      const std::int64_t heads = tokens.q.size(1);
      const at::Tensor one_hot = at::eye(n, at::kDouble).expand({2, heads, n, n});
      const at::Tensor of_twin = mixer.twin({tokens.q, tokens.k, one_hot}, grid);
      EXPECT_LT(relative_error(map, of_twin.unflatten(2, {heads, n}).transpose(1, 2)), 1e-9);
    }
    const at::Tensor middle = mixer.mixer().attention_rows(tokens.q, tokens.k, grid, 11, 6);
    EXPECT_LT(relative_error(middle, map.narrow(2, 11, 6)), 1e-12);
    if (entry().rows_sum_to_one) expect_rows_sum_to_one(map);
    least_weight = std::min(least_weight, map.min().item<double>());
  }
  if (!entry().has_map) return;
  if (entry().non_negative) {
    EXPECT_GE(least_weight, -1e-15);
  } else {
    EXPECT_LT(least_weight, -1e-6) << "no negative weight in any variant";
  }
}

TEST_P(ConformanceMapTest, HalfPrecisionRowsAreThoseOfTheFloats) {
  const c10::InferenceMode inference;
  if (!entry().has_map) GTEST_SKIP() << "no map";
  const TokenGrid grid{1, 4, 5};
  for (const AttentionSpec& spec : variants(entry())) {
    at::manual_seed(2);
    const MixerUnderTest mixer(spec, grid);
    const Tokens half = random_tokens(1, grid.num_tokens(), {}, at::kBFloat16);
    const at::Tensor map = mixer.map(half, grid);
    EXPECT_EQ(map.scalar_type(), at::kFloat) << describe(spec);
    EXPECT_LT(relative_error(map, mixer.map(half.to(at::kFloat), grid)), 1e-5) << describe(spec);
  }
}

TEST_P(ConformanceMapTest, ContributionsSumToTheOutput) {
  const c10::InferenceMode inference;
  for (const TokenGrid& grid : {TokenGrid{2, 5, 7}, TokenGrid{1, 0, 0}, TokenGrid{0, 2, 1}}) {
    for (const AttentionSpec& spec : variants(entry())) {
      SCOPED_TRACE(describe(spec) + ", " + std::to_string(grid.num_tokens()) + " tokens");
      at::manual_seed(3);
      const MixerUnderTest mixer = exact_mixer(spec, grid);
      const Tokens tokens = exact_tokens(grid);
      const at::Tensor y = mixer.mix(tokens, grid);
      for (const std::int64_t query : {std::int64_t{0}, grid.num_tokens() - 1}) {
        const at::Tensor parts = mixer.contributions(tokens, grid, query);
        ASSERT_EQ(parts.sizes(), y.sizes());
        EXPECT_LT(relative_error(parts.sum(1), y.select(1, query)), 1e-9);
      }
    }
  }
}

at::Tensor permutation_of(std::int64_t count) {
  return at::randperm(count, at::TensorOptions(at::kLong));
}

/// How far permuting the output is from permuting the input.
double permutation_defect(const MixerUnderTest& mixer, const TokenGrid& grid) {
  const Tokens tokens = exact_tokens(grid);
  const at::Tensor order = permutation_of(grid.num_tokens());
  return relative_error(mixer.mix(tokens.tokens(order), grid),
                        mixer.mix(tokens, grid).index_select(1, order));
}

TEST_P(ConformanceMapTest, PermutationEquivarianceIsAsDeclared) {
  const c10::InferenceMode inference;
  // More patches than landmarks and projected tokens, and than some patterns see.
  const TokenGrid grid = entry().sparse ? TokenGrid{1, 32, 40} : TokenGrid{1, 16, 24};
  for (const AttentionSpec& spec : variants(entry())) {
    if (has_local_term(spec)) continue;
    SCOPED_TRACE(describe(spec));
    at::manual_seed(4);
    const MixerUnderTest mixer = exact_mixer(spec, entry().sparse ? TokenGrid{1, 4, 6} : grid);
    const double defect = permutation_defect(mixer, grid);
    if (entry().permutation_equivariant) {
      EXPECT_LT(defect, 1e-10);
    } else {
      EXPECT_GT(defect, 1e-3);
    }
  }
}

/// Every token twice: the prefix tokens, then the rows of patches below themselves.
at::Tensor twice(const TokenGrid& grid) {
  const at::Tensor index = at::arange(grid.num_tokens());
  const at::Tensor prefix = index.narrow(0, 0, grid.num_prefix);
  const at::Tensor patches = index.narrow(0, grid.num_prefix, grid.rows * grid.columns);
  return at::cat({prefix, prefix, patches, patches});
}

TEST_P(ConformanceMapTest, DuplicationOfTokensIsAsDeclared) {
  const c10::InferenceMode inference;
  if (!entry().normalised) GTEST_SKIP() << "not normalised";
  if (!entry().permutation_equivariant) GTEST_SKIP() << "its geometry gives copies other weights";
  const TokenGrid grid{2, 4, 5};
  const TokenGrid doubled{4, 8, 5};
  for (const AttentionSpec& spec : variants(entry())) {
    if (has_local_term(spec)) continue;
    if (spec.options.contains("logit_scale")) continue;  // a temperature that depends on N
    SCOPED_TRACE(describe(spec));
    at::manual_seed(5);
    const MixerUnderTest mixer = exact_mixer(spec, grid);
    const Tokens tokens = exact_tokens(grid);
    const at::Tensor index = twice(grid);
    const at::Tensor expected = mixer.mix(tokens, grid).index_select(1, index);
    const double change = relative_error(mixer.mix(tokens.tokens(index), doubled), expected);
    // An eps that is added to a denominator weighs half as much against twice the sum.
    EXPECT_LT(change, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, ConformanceMapTest, all_entries(), entry_name);

}  // namespace
}  // namespace hydrascope::testing
