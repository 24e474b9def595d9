// Examples small enough to be done by hand: cases 1 to 12 and 15 of the mathematical reference.
#include "model/attention/hydra_attention.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace exact_values_test {

using model::AttentionSpec;
using model::Kernels;
using model::TokenGrid;
using Rows = std::vector<std::vector<double>>;

/// The number that is added to some denominators leaves this much of an example's value.
constexpr double kEpsError = 1e-5;

/// No prefix, one row of patches.
TokenGrid line(std::int64_t num_tokens) { return {0, 1, num_tokens}; }

/// y of one head in both forms, (N, d).
at::Tensor mixed(const AttentionSpec& spec, const Rows& q, const Rows& k, const Rows& v) {
  const Tokens tokens{one_head(q), one_head(k), one_head(v)};
  const TokenGrid grid = line(tokens.q.size(2));
  const MixerUnderTest mixer = plain_mixer(spec, grid, {1, tokens.q.size(3)});
  const at::Tensor y = mixer.mix(tokens, grid, Kernels::fused)[0];
  EXPECT_TRUE(all_near(mixer.mix(tokens, grid, Kernels::reference)[0], y, 1e-12));
  return y;
}

/// The map of one head, (N, N).
at::Tensor map_of(const AttentionSpec& spec, const Rows& q, const Rows& k, const TokenGrid& grid) {
  const Tokens tokens{one_head(q), one_head(k), {}};
  return plain_mixer(spec, grid, {1, tokens.q.size(3)}).map(tokens, grid)[0][0];
}

at::Tensor matrix(const Rows& rows) { return one_head(rows)[0][0]; }

TEST(ExactValuesTest, AttentionCase01Softmax) {
  const double ln3 = std::numbers::ln2 * std::log2(3.0);
  const at::Tensor y = mixed(spec_of("softmax"), {{1}, {0}}, {{0}, {ln3}}, {{0}, {4}});
  EXPECT_TRUE(all_near(y, matrix({{3}, {2}}), 1e-12));
}

TEST(ExactValuesTest, AttentionCase02EluOfOneFeatureIgnoresTheQuery) {
  const at::Tensor y = mixed(spec_of("elu"), {{-1}, {11}}, {{0}, {1}}, {{3}, {6}});
  EXPECT_TRUE(all_near(y, matrix({{5}, {5}}), kEpsError));
}

TEST(ExactValuesTest, AttentionCase03HydraAndItsGradient) {
  const Tokens tokens = Tokens{one_head({{3, 4}}), one_head({{3, 4}}), one_head({{1, 2}})}.leaves();
  const MixerUnderTest mixer = plain_mixer(spec_of("hydra"), line(1), {1, 2});
  for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
    const at::Tensor y = mixer.mix(tokens, line(1), kernels);
    EXPECT_TRUE(all_near(y[0], matrix({{.36, 1.28}}), 1e-12));
    const auto gradients = torch::autograd::grad({y.sum()}, {tokens.q, tokens.k, tokens.v});
    EXPECT_TRUE(all_near(gradients[0], one_head({{-.0768, .0576}}), 1e-12));
    EXPECT_TRUE(all_near(gradients[1], one_head({{-.0768, .0576}}), 1e-12));
    EXPECT_TRUE(all_near(gradients[2], one_head({{.36, .64}}), 1e-12));
  }
}

TEST(ExactValuesTest, AttentionCase04HydraSumsAndIgnoresZeroKeys) {
  const AttentionSpec as_published = spec_of("hydra", {{"scale", "none"}});
  const at::Tensor two = mixed(as_published, {{3, 4}, {3, 4}}, {{3, 4}, {4, -3}}, {{1, 2}, {5, 7}});
  EXPECT_TRUE(all_near(two[0], at::tensor({2.76, -2.08}, at::kDouble), 1e-12));
  const Rows queries{{3, 4}, {3, 4}, {3, 4}};
  const Rows with_zero{{3, 4}, {4, -3}, {0, 0}};
  const Rows values{{1, 2}, {5, 7}, {1e9, -1e9}};
  EXPECT_TRUE(all_near(mixed(as_published, queries, with_zero, values).narrow(0, 0, 2), two, 0));
  model::HydraKernel cosine = model::find_hydra_kernel("cosine");
  cosine.rule->eps = 0;
  const at::Tensor y =
      model::hydra_attention(one_head(queries), one_head(with_zero), one_head(values), {},
                             {.phi_q = cosine, .phi_k = cosine});
  EXPECT_TRUE(at::isnan(y).all().item<bool>());
}

double hedgehog_of_first_query(const std::string& variant, const Rows& q, const Rows& k,
                               const Rows& v) {
  return mixed(spec_of("hedgehog", {{"variant", variant}}), q, k, v)[0][0].item<double>();
}

TEST(ExactValuesTest, AttentionCase07HedgehogExample) {
  const Rows q{{0, 1}, {0, 1}, {0, 1}};
  const Rows k{{0, 0}, {1, -1}, {.5, 2}};
  const Rows v{{1, 0}, {2, 0}, {4, 0}};
  EXPECT_NEAR(hedgehog_of_first_query("exp", q, k, v), 3.2190, 5e-5);
  EXPECT_NEAR(hedgehog_of_first_query("softmax2", q, k, v), 2.5395, 5e-5);
  EXPECT_NEAR(hedgehog_of_first_query("softmax1", q, k, v), 3.1640, 5e-5);
  EXPECT_NEAR(hedgehog_of_first_query("expdim", q, k, v), 2.2696, 5e-5);
}

TEST(ExactValuesTest, AttentionCase08OnePlusCosine) {
  const Rows q{{1, 0}, {1, 0}, {1, 0}};
  const at::Tensor map = map_of(spec_of("cos"), q, {{1, 0}, {-1, 0}, {0, 1}}, line(3));
  EXPECT_TRUE(all_near(map[0], at::tensor({2. / 3, 0., 1. / 3}, at::kDouble), kEpsError));
  const Rows opposite{{-1, 0}, {-2, 0}, {-3, 0}};
  const at::Tensor y = mixed(spec_of("cos"), q, opposite, {{1, 2}, {3, 4}, {5, 6}});
  EXPECT_TRUE(all_near(y, at::zeros({3, 2}), 0));
}

/// Features a head, from the size of the state in the cost: H F (d + 1) elements.
double feature_count(const AttentionSpec& spec, std::int64_t head_dim) {
  const model::MixerSize size{{1, 14, 14}, head_dim, 1, 4};
  const double tokens = 4.0 * 197 * static_cast<double>(head_dim) * 4;
  const double state = model::find_mechanism(spec.mechanism).cost(size, spec).bytes - tokens;
  return state / 4 / static_cast<double>(head_dim + 1);
}

TEST(ExactValuesTest, AttentionCase09Taylor2) {
  const Rows q{{1}, {1}, {1}};
  const Rows k{{-1}, {0}, {1}};
  const at::Tensor exact = map_of(spec_of("taylor2"), q, k, line(3))[0];
  EXPECT_TRUE(all_near(exact * 4, at::tensor({.5, 1., 2.5}, at::kDouble), 1e-12));
  const at::Tensor raw = map_of(spec_of("taylor2", {{"polynomial", "taylor2_raw"}}), q, k, line(3));
  EXPECT_TRUE(all_near(raw[0] * 5, at::tensor({1., 1., 3.}, at::kDouble), 1e-12));
  EXPECT_DOUBLE_EQ(feature_count(spec_of("taylor2"), 64), 2145);
  EXPECT_DOUBLE_EQ(feature_count(spec_of("taylor2"), 4), 15);
}

TEST(ExactValuesTest, AttentionCase10EfficientAttention) {
  const at::Tensor map =
      map_of(spec_of("efficient"), {{0, 0}, {0, 0}}, {{0, 0}, {std::log(3.0), 0}}, line(2));
  EXPECT_TRUE(all_near(map[0], at::tensor({.375, .625}, at::kDouble), 1e-12));
}

TEST(ExactValuesTest, AttentionCase11AftAndPolyNl) {
  const at::Tensor aft = mixed(spec_of("aft"), {{0}, {0}}, {{0}, {std::log(3.0)}}, {{0}, {8}});
  EXPECT_TRUE(all_near(aft, matrix({{3}, {3}}), 1e-12));
  const at::Tensor polynl = mixed(spec_of("polynl"), {{2}, {2}}, {{1}, {3}}, {{1}, {1}});
  EXPECT_TRUE(all_near(polynl, matrix({{4}, {4}}), 1e-12));
}

TEST(ExactValuesTest, AttentionCase12CosformerOnAGridOfFour) {
  const Rows ones{{1}, {1}, {1}, {1}};
  const at::Tensor map = map_of(spec_of("cosformer"), ones, ones, {0, 2, 2});
  EXPECT_TRUE(
      all_near(map[0] / map[0][0], at::tensor({1., .70711, .70711, .5}, at::kDouble), 1e-5));
}

}  // namespace exact_values_test
}  // namespace hydrascope::testing
