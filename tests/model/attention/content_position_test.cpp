// Position rules where learned spans, registers or the tokens themselves decide what a patch sees.
#include "kernels/error.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/attention/twins/position_twins.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace content_position_test {

using model::AttentionSpec;
using model::Kernels;
using model::PositionSpec;
using model::TokenGrid;

/// Two of the prefix tokens are registers.
const TokenGrid kGrid{3, 4, 5, 0, 0, 2};
const HeadShape kShape{3, 8};

std::vector<PositionSpec> rules() {
  std::vector<PositionSpec> list{{"rope", {{"variant", "mixed"}}}, {"shaw", {{"values", "on"}}}};
  for (const model::PositionEntry* entry : model::position_rules())
    list.push_back({entry->name, {}});
  return list;
}

MixerUnderTest mixer_with(const AttentionSpec& spec, const PositionSpec& rule) {
  at::manual_seed(51);
  MixerUnderTest mixer(spec, kGrid, kShape, rule);
  mixer.make_exact();
  return mixer;
}

Tokens tokens_of(const TokenGrid& grid) {
  at::manual_seed(52);
  return random_tokens(2, grid.num_tokens(), kShape, at::kDouble);
}

Parameters parameters_of(const MixerUnderTest& mixer) {
  Parameters parameters;
  for (const auto& item : mixer.owner().named_parameters()) parameters[item.key()] = item.value();
  return parameters;
}

/// A rule multiplies a map's weights by e^(s' - s): `turned` are q and k as the scores s take them.
at::Tensor expected_output(const MixerUnderTest& mixer, const AttentionSpec& spec,
                           const PositionSpec& rule, const Tokens& x) {
  const Parameters parameters = parameters_of(mixer);
  const auto turned = [&](const at::Tensor& t) {
    return position_turned(rule, t, kGrid, {kGrid}, parameters);
  };
  const std::int64_t n = kGrid.num_tokens();
  const at::Tensor one_hot = at::eye(n, at::kDouble).expand({2, kShape.num_heads, n, n});
  const at::Tensor map = twin(spec, turned(x.q), turned(x.k), one_hot, kGrid, kGrid, parameters)
                             .unflatten(2, {kShape.num_heads, n})
                             .transpose(1, 2);
  const bool shares = spec.options.contains("share_qk");
  const at::Tensor keys = shares ? x.q / x.q.norm(2, -1, true) : x.k;
  const RuledPairs pairs = position_pairs(rule, x.q, keys, kGrid, {kGrid}, parameters);
  const at::Tensor plain = at::matmul(turned(x.q), turned(keys).transpose(2, 3)) / std::sqrt(8.0);
  const at::Tensor weights = map * (pairs.scores - plain).exp();
  return averaged(weights / weights.sum(-1, true), x.v, pairs);
}

class ContentPositionTest : public ::testing::TestWithParam<AttentionSpec> {};

TEST_P(ContentPositionTest, EveryRuleChangesTheScoresOfWhatIsSeen) {
  for (const PositionSpec& rule : rules()) {
    SCOPED_TRACE(rule.rule + (rule.options.empty() ? "" : " with an option"));
    // A span that is the query's is that of the query as it was projected.
    if (rule.rule == "rope" && GetParam().options.contains("dynamic")) continue;
    const MixerUnderTest mixer = mixer_with(GetParam(), rule);
    const Tokens x = tokens_of(kGrid).leaves();
    std::vector<at::Tensor> inputs{x.q, x.k, x.v};
    for (const auto& item : mixer.owner().named_parameters()) inputs.push_back(item.value());
    const at::Tensor weight = at::randn({2, kGrid.num_tokens(), 24}, at::kDouble);
    const auto gradients = [&](const at::Tensor& y) {
      return torch::autograd::grad({(y * weight).sum()}, inputs, {}, std::nullopt, false,
                                   /*allow_unused=*/true);
    };
    const at::Tensor expected = expected_output(mixer, GetParam(), rule, x);
    const auto wanted = gradients(expected);
    for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
      const at::Tensor y = mixer.mix(x, kGrid, kernels);
      EXPECT_TRUE(all_near(y, expected, 1e-11));
      const auto found = gradients(y);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        // A query and a key have no gradient where k is not used.
        if (!found[i].defined() || !wanted[i].defined()) continue;
        EXPECT_TRUE(all_near(found[i], wanted[i], 1e-9)) << "input " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Mechanisms, ContentPositionTest,
    ::testing::Values(spec_of("etc", {{"window", "3"}}), spec_of("reformer", {{"bucket", "4"}}),
                      spec_of("reformer", {{"bucket", "4"}, {"share_qk", "on"}}),
                      spec_of("routing", {{"clusters", "4"}, {"window", "3"}}),
                      spec_of("adaptive_span", {{"max", "2"}, {"ramp", "1.5"}}),
                      spec_of("adaptive_span", {{"max", "2"}, {"dynamic", "on"}})),
    [](const auto& parameter) {
      return parameter.param.mechanism + "_" + parameter.param.options.rbegin()->first;
    });

/// Sorted keys lie nowhere, so that only a rule that turns has the map of turned tokens.
TEST(SinkhornPositionTest, RotationTurnsWhatIsSorted) {
  const at::NoGradGuard no_grad;
  const AttentionSpec spec = spec_of("sinkhorn", {{"tile", "2x3"}});
  for (const PositionSpec& rule :
       {PositionSpec{"rope", {}}, PositionSpec{"rope", {{"variant", "mixed"}}}}) {
    const MixerUnderTest mixer = mixer_with(spec, rule);
    const Tokens x = tokens_of(kGrid);
    const at::Tensor expected = expected_output(mixer, spec, rule, x);
    for (const Kernels kernels : {Kernels::fused, Kernels::reference})
      EXPECT_TRUE(all_near(mixer.mix(x, kGrid, kernels), expected, 1e-11));
  }
}

TEST(SinkhornPositionTest, OneTileUnderARuleIsSoftmaxUnderIt) {
  const at::NoGradGuard no_grad;
  for (const PositionSpec& rule : rules()) {
    SCOPED_TRACE(rule.rule);
    if (rule.options.contains("values")) {
      EXPECT_THROW(mixer_with(spec_of("sinkhorn"), rule), Error);
      continue;
    }
    const Tokens x = tokens_of(kGrid);
    // The rule's parameters are those of softmax's layer.
    const MixerUnderTest mixer = mixer_with(spec_of("sinkhorn"), rule);
    const MixerUnderTest softmax = mixer_with(spec_of("softmax"), rule);
    for (const auto& item : softmax.owner().named_parameters()) mixer.set(item.key(), item.value());
    const at::Tensor expected = softmax.mix(x, kGrid);
    for (const Kernels kernels : {Kernels::fused, Kernels::reference})
      EXPECT_TRUE(all_near(mixer.mix(x, kGrid, kernels), expected, 1e-11));
  }
}

}  // namespace content_position_test
}  // namespace hydrascope::testing
