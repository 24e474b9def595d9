// The common symmetries of mechanisms of a kind, and softmax's own invariances: cases 33 to 35 and 39 of
// the mathematical reference. The registry's declarations are held against the reference's table.
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace symmetry_identities_test {

using model::find_mechanism;
using model::MechanismEntry;
using model::TokenGrid;

const HeadShape kShape{2, 4};
const TokenGrid kGrid{1, 4, 6};

Tokens tokens_of(std::uint64_t seed, const TokenGrid& grid = kGrid) {
  at::manual_seed(seed);
  return random_tokens(2, grid.num_tokens(), kShape, at::kDouble);
}

// That declarations hold is ConformanceMapTest's.
TEST(SymmetryIdentitiesTest, AttentionCase33TheRightMechanismsIgnoreTheOrder) {
  for (const char* ignores :
       {"softmax", "hydra", "hedgehog", "elu", "relu", "performer", "taylor2"})
    EXPECT_TRUE(find_mechanism(ignores).permutation_equivariant) << ignores;
  for (const char* sees : {"cosformer", "linformer", "nystrom", "window", "strided"})
    EXPECT_FALSE(find_mechanism(sees).permutation_equivariant) << sees;
}

/// -sum_j A_ij ln A_ij
at::Tensor entropy(const at::Tensor& map) { return -at::special_xlogy(map, map).sum(-1); }

TEST(SymmetryIdentitiesTest, AttentionCase34DuplicationAddsLogTwoToTheEntropy) {
  const c10::InferenceMode inference;
  const Tokens tokens = tokens_of(1);
  const at::Tensor index = at::arange(kGrid.num_tokens());
  const at::Tensor prefix = index.narrow(0, 0, 1);
  const at::Tensor patches = index.narrow(0, 1, 24);
  const at::Tensor twice = at::cat({prefix, prefix, patches, patches});
  const TokenGrid doubled{2, 8, 6};
  const std::set<std::string> normalised{"softmax", "elu",       "exp", "hedgehog", "performer",
                                         "taylor2", "efficient", "cos", "relu",     "t2r"};
  for (const std::string& name : normalised) {
    EXPECT_TRUE(find_mechanism(name).normalised) << name;
    at::manual_seed(2);
    const MixerUnderTest mixer = plain_mixer(spec_of(name), kGrid, kShape);
    const at::Tensor before = entropy(mixer.map(tokens, kGrid)).index_select(2, twice);
    const at::Tensor after = entropy(mixer.map(tokens.tokens(twice), doubled));
    const at::Tensor has_weights = before > 0;  // a ReLU query without features has none
    const at::Tensor gain = at::where(has_weights, after - before, std::log(2.0));
    EXPECT_TRUE(all_near(gain, at::full_like(gain, std::log(2.0)), 1e-4)) << name;
  }
  for (const char* const name : {"hydra", "mla", "linformer"})
    EXPECT_FALSE(find_mechanism(name).normalised) << name;
}

/// Entries whose weights are declared to be a distribution.
std::vector<const MechanismEntry*> averages() {
  std::vector<const MechanismEntry*> list;
  for (const MechanismEntry* entry : model::mechanisms()) {
    if (entry->has_map && entry->non_negative && entry->rows_sum_to_one) list.push_back(entry);
  }
  return list;
}

TEST(SymmetryIdentitiesTest, AttentionCase35AveragesStayInsideTheValues) {
  const c10::InferenceMode inference;
  EXPECT_GE(averages().size(), 9U);
  for (const MechanismEntry* entry : averages()) {
    Tokens tokens = tokens_of(3);
    tokens.q.abs_();  // no query without features
    tokens.v = tokens.v + 5;
    const at::Tensor y =
        model::split_heads(plain_mixer(spec_of(entry->name), kGrid, kShape).mix(tokens, kGrid), 2);
    // 1e-5: an eps in the denominator pulls towards 0.
    EXPECT_TRUE((y > tokens.v.amin(2, true) - 1e-5).all().item<bool>()) << entry->name;
    EXPECT_TRUE((y < tokens.v.amax(2, true) + 1e-5).all().item<bool>()) << entry->name;
  }
}

TEST(SymmetryIdentitiesTest, AttentionCase35EqualKeysAverageTheValues) {
  const c10::InferenceMode inference;
  Tokens tokens = tokens_of(4);
  tokens.q.abs_();
  tokens.k = tokens.k.select(2, 0).abs().unsqueeze(2).expand_as(tokens.k);
  const at::Tensor mean = model::merge_heads(tokens.v).mean(1, true);
  for (const MechanismEntry* entry : averages()) {
    // If distances count, equal keys are not equal.
    if (!entry->permutation_equivariant) continue;
    at::manual_seed(5);
    const at::Tensor y = plain_mixer(spec_of(entry->name), kGrid, kShape).mix(tokens, kGrid);
    EXPECT_TRUE(all_near(y, mean.expand_as(y), 1e-5)) << entry->name;
  }
  const auto unit = [](const at::Tensor& x) {
    const at::Tensor token = model::merge_heads(x);
    return at::Tensor(token / token.norm(2, -1, true));
  };
  EXPECT_TRUE(all_near(plain_mixer(spec_of("hydra"), kGrid, kShape).mix(tokens, kGrid),
                       25 * unit(tokens.q) * unit(tokens.k) * mean, 1e-10));
}

TEST(SymmetryIdentitiesTest, AttentionCase39SoftmaxIgnoresShifts) {
  const Tokens tokens = tokens_of(6);
  const MixerUnderTest softmax = plain_mixer(spec_of("softmax"), kGrid, kShape);
  const at::Tensor y = softmax.mix(tokens, kGrid);
  const at::Tensor shift = at::randn({kShape.head_dim}, at::kDouble);
  EXPECT_TRUE(all_near(softmax.mix({tokens.q, tokens.k + shift, tokens.v}, kGrid), y, 1e-10));
  const at::Tensor scores =
      tokens.q.matmul(tokens.k.mT()) / std::sqrt(static_cast<double>(kShape.head_dim));
  const at::Tensor rows = at::randn({2, 2, kGrid.num_tokens(), 1}, at::kDouble);
  EXPECT_TRUE(all_near(at::softmax(scores + rows, -1), softmax.map(tokens, kGrid), 1e-12));
}

/// Share of key pairs with s_ij > s_ij' that also have A_ij > A_ij'.
double concordance(const at::Tensor& scores, const at::Tensor& map) {
  const at::Tensor higher_score = scores.unsqueeze(-1) > scores.unsqueeze(-2);
  const at::Tensor higher_weight = map.unsqueeze(-1) > map.unsqueeze(-2);
  return (higher_score & higher_weight).sum().item<double>() / higher_score.sum().item<double>();
}

TEST(SymmetryIdentitiesTest, AttentionCase39SoftmaxIsMonotoneAndUniformAtZero) {
  Tokens tokens = tokens_of(7);
  const at::Tensor scores = tokens.q.matmul(tokens.k.mT());
  const MixerUnderTest softmax = plain_mixer(spec_of("softmax"), kGrid, kShape);
  EXPECT_EQ(concordance(scores, softmax.map(tokens, kGrid)), 1);
  const double of_elu =
      concordance(scores, plain_mixer(spec_of("elu"), kGrid, kShape).map(tokens, kGrid));
  EXPECT_GT(of_elu, 0.5);
  EXPECT_LT(of_elu, 0.99);
  tokens.q = at::zeros_like(tokens.q);
  const at::Tensor uniform = entropy(softmax.map(tokens, kGrid));
  EXPECT_TRUE(all_near(
      uniform, at::full_like(uniform, std::log(static_cast<double>(kGrid.num_tokens()))), 1e-12));
}

}  // namespace symmetry_identities_test
}  // namespace hydrascope::testing
