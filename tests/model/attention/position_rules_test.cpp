// Position rules in the mixers that take them: twins, identities, gradients, maps.
#include "kernels/error.h"
#include "model/attention/positions/position_rule.h"
#include "model/registry/positions.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/attention/twins/position_twins.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace hydrascope::testing {
namespace position_rules_test {

using model::Kernels;
using model::PositionSpec;
using model::TokenGrid;

const TokenGrid kTrained{2, 3, 4};
const TokenGrid kLarger{2, 4, 5};
const HeadShape kShape{3, 8};

PositionSpec rule_of(const std::string& rule, std::map<std::string, std::string> options = {}) {
  return {rule, std::move(options)};
}

std::string name_of(const PositionSpec& rule) {
  std::string text = rule.rule;
  for (const auto& [key, value] : rule.options) text += "_" + key + "_" + value;
  std::erase_if(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_'; });
  return text;
}

std::vector<PositionSpec> all_rules() {
  return {rule_of("rope"),
          rule_of("rope", {{"order", "ij"}, {"layout", "half"}, {"coords", "unit"}}),
          rule_of("rope", {{"order", "ij"}, {"base", "10000"}, {"coords", "train"}}),
          rule_of("rope", {{"variant", "mixed"}, {"base", "10"}}),
          rule_of("rope", {{"variant", "mixed"}, {"layout", "half"}, {"order", "ij"}}),
          rule_of("relbias"),
          rule_of("relbias", {{"table", "t5"}}),
          rule_of("relbias", {{"table", "mlp"}, {"hidden", "6"}}),
          rule_of("shaw"),
          rule_of("shaw", {{"clip", "2"}, {"scaled", "off"}}),
          rule_of("shaw", {{"clip", "1"}, {"values", "on"}}),
          rule_of("transformer_xl"),
          rule_of("transformer_xl", {{"base", "10"}}),
          rule_of("alibi"),
          rule_of("alibi", {{"strength", "3"}}),
          rule_of("lookhere"),
          rule_of("lookhere", {{"view", "90"}}),
          rule_of("lookhere", {{"view", "45"}, {"strength", "2"}}),
          rule_of("lookhere", {{"view", "none"}}),
          rule_of("da"),
          rule_of("da", {{"positive", "off"}})};
}

/// Whether its twin knows a grid.
bool has_twin_at(const PositionSpec& rule, const TokenGrid& grid) {
  return rule.rule != "relbias" || rule.options.contains("table") || grid.rows == kTrained.rows;
}

MixerUnderTest mixer_with(const PositionSpec& rule,
                          const model::AttentionSpec& spec = spec_of("softmax"),
                          const TokenGrid& trained = kTrained, std::uint64_t seed = 31) {
  at::manual_seed(seed);
  MixerUnderTest mixer(spec, trained, kShape, rule);
  mixer.make_exact();
  return mixer;
}

Parameters parameters_of(const MixerUnderTest& mixer) {
  Parameters parameters;
  for (const auto& item : mixer.owner().named_parameters()) parameters[item.key()] = item.value();
  return parameters;
}

Tokens exact_tokens(const TokenGrid& grid, std::uint64_t seed = 32) {
  at::manual_seed(seed);
  return random_tokens(2, grid.num_tokens(), kShape, at::kDouble);
}

class PositionRuleTest : public ::testing::TestWithParam<PositionSpec> {};

TEST_P(PositionRuleTest, AgreesWithItsTwin) {
  const at::NoGradGuard no_grad;
  const MixerUnderTest mixer = mixer_with(GetParam());
  for (const TokenGrid& grid : {kTrained, kLarger}) {
    if (!has_twin_at(GetParam(), grid)) continue;
    const Tokens x = exact_tokens(grid);
    const at::Tensor expected =
        position_twin(GetParam(), x.q, x.k, x.v, grid, {kTrained}, parameters_of(mixer));
    EXPECT_TRUE(all_near(mixer.mix(x, grid), expected, 1e-12));
    EXPECT_TRUE(all_near(mixer.mix(x, grid, Kernels::reference), expected, 1e-12));
  }
}

TEST_P(PositionRuleTest, GradientsAreThoseOfItsTwin) {
  const MixerUnderTest mixer = mixer_with(GetParam());
  const Tokens x = exact_tokens(kTrained).leaves();
  const at::Tensor weight = at::randn({2, kTrained.num_tokens(), 24}, at::kDouble);
  std::vector<at::Tensor> inputs{x.q, x.k, x.v};
  for (const auto& item : mixer.owner().named_parameters()) inputs.push_back(item.value());
  const auto gradients = [&](const at::Tensor& y) {
    return torch::autograd::grad({(y * weight).sum()}, inputs, {}, std::nullopt, false,
                                 /*allow_unused=*/true);
  };
  const auto expected = gradients(
      position_twin(GetParam(), x.q, x.k, x.v, kTrained, {kTrained}, parameters_of(mixer)));
  const auto found = gradients(mixer.mix(x, kTrained));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined()) << i;
    if (!found[i].defined()) continue;
    EXPECT_TRUE(all_near(found[i], expected[i], 1e-9)) << "input " << i;
  }
}

TEST_P(PositionRuleTest, RowsOfItsMapMakeTheOutput) {
  const at::NoGradGuard no_grad;
  const MixerUnderTest mixer = mixer_with(GetParam());
  const Tokens x = exact_tokens(kLarger);
  const at::Tensor map = mixer.map(x, kLarger);
  EXPECT_TRUE(all_near(map.sum(-1), at::ones({2, 3, kLarger.num_tokens()}, at::kDouble), 1e-12));
  const Tokens begin{x.q.narrow(2, 0, 9), x.k, x.v};
  EXPECT_TRUE(all_near(mixer.mixer().attention_rows(begin.q, x.k, kLarger, 1, 8),
                       map.narrow(2, 1, 8), 1e-12));
  const at::Tensor y = mixer.mix(x, kLarger);
  EXPECT_TRUE(
      all_near(mixer.mixer().mix_rows(begin.q, x.k, x.v, kLarger, 3, 5), y.narrow(1, 3, 5), 1e-12));
  // The contributions of the tokens to g . y add up to it.
  const at::Tensor g = at::randn({2, 5, 24}, at::kDouble);
  const at::Tensor given = mixer.mixer().weighted_rows(begin.q, x.k, x.v, g, kLarger, 3, 5);
  EXPECT_TRUE(all_near(given.sum({1, 3}), (g * y.narrow(1, 3, 5)).sum(2), 1e-11));
  // Rollouts send one column through the map, which is no value of a token.
  const at::Tensor column = at::randn({2, 3, kLarger.num_tokens(), 1}, at::kDouble);
  EXPECT_TRUE(all_near(mixer.mixer().mix(x.q, x.k, column, kLarger, Kernels::automatic),
                       model::merge_heads(map.matmul(column)), 1e-12));
}

// softmax(s * scores), scores with what the rule adds to them, by the plain map: its scores are the
// logarithms, up to a constant a row.
TEST_P(PositionRuleTest, LogitScaleSharpensTheScoresOfTheRule) {
  const at::NoGradGuard no_grad;
  const MixerUnderTest mixer = mixer_with(GetParam(), spec_of("softmax", {{"logit_scale", "log"}}));
  const Tokens x = exact_tokens(kLarger);
  const double scale = std::log(kLarger.num_tokens()) / std::log(kTrained.num_tokens());
  const at::Tensor powers = mixer_with(GetParam()).map(x, kLarger).pow(scale);
  EXPECT_TRUE(all_near(mixer.map(x, kLarger), powers / powers.sum(-1, true), 1e-12));
  EXPECT_TRUE(all_near(mixer.mix(x, kLarger), mixer.mix(x, kLarger, Kernels::reference), 1e-12));
}

TEST_P(PositionRuleTest, SparseMechanismsTakeItToo) {
  const at::NoGradGuard no_grad;
  const Tokens x = exact_tokens(kLarger);
  const at::Tensor everywhere = mixer_with(GetParam()).mix(x, kLarger);
  const MixerUnderTest covering = mixer_with(GetParam(), spec_of("window", {{"size", "9"}}));
  EXPECT_TRUE(all_near(covering.mix(x, kLarger), everywhere, 1e-12));
  for (const model::MechanismEntry* entry : model::mechanisms()) {
    if (!entry->sparse || !entry->takes_positions) continue;
    for (const model::AttentionSpec& spec : variants(*entry)) {
      SCOPED_TRACE(describe(spec));
      // Its sorted values lie nowhere.
      if (entry->name == "sinkhorn" && GetParam().options.contains("values")) continue;
      const MixerUnderTest mixer = mixer_with(GetParam(), spec);
      EXPECT_TRUE(
          all_near(mixer.mix(x, kLarger), mixer.mix(x, kLarger, Kernels::reference), 1e-11));
    }
  }
}

TEST_P(PositionRuleTest, HalfTypesStayNear) {
  const at::NoGradGuard no_grad;
  const MixerUnderTest mixer = mixer_with(GetParam());
  const Tokens x = exact_tokens(kLarger);
  const at::Tensor expected = mixer.mix(x, kLarger);
  mixer.owner().to(at::kBFloat16);
  const at::Tensor y = mixer.mix(x.to(at::kBFloat16), kLarger);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_LT(relative_l2(y, expected), 0.05);
}

INSTANTIATE_TEST_SUITE_P(Rules, PositionRuleTest, ::testing::ValuesIn(all_rules()),
                         [](const auto& parameter) { return name_of(parameter.param); });

TEST(PositionRulesTest, EveryRuleIsTried) {
  std::set<std::string> tried;
  for (const PositionSpec& rule : all_rules()) tried.insert(rule.rule);
  for (const model::PositionEntry* entry : model::position_rules())
    EXPECT_TRUE(tried.contains(entry->name)) << entry->name;
  EXPECT_EQ(model::position_rules().size(), tried.size());
}

// Parameters at their start, not those that MixerUnderTest moves away.
TEST(PositionRulesTest, RulesOfParametersBeginAsSoftmax) {
  const at::NoGradGuard no_grad;
  const Tokens x = exact_tokens(kTrained);
  const at::Tensor softmax = mixer_with({}).mix(x, kTrained);
  for (const PositionSpec& rule :
       {rule_of("relbias"), rule_of("relbias", {{"table", "t5"}}),
        rule_of("relbias", {{"table", "mlp"}}), rule_of("shaw", {{"values", "on"}}),
        rule_of("transformer_xl"), rule_of("da", {{"positive", "off"}})}) {
    SCOPED_TRACE(name_of(rule));
    torch::nn::Module owner("attn");
    model::TokenMixerArguments arguments{3, 8, 1, 2, kTrained, spec_of("softmax"), owner};
    model::TokenMixerArguments of_rule = arguments;
    of_rule.options = model::position_options(rule);
    arguments.position = model::find_position_rule(rule.rule).make(of_rule);
    EXPECT_FALSE(owner.parameters().empty());
    const auto mixer = model::find_mechanism("softmax").make(arguments);
    EXPECT_TRUE(all_near(mixer->mix(x.q, x.k, x.v, kTrained, Kernels::automatic), softmax, 1e-12));
  }
}

/// s of all pairs of tokens that are all alike, (H, N, N): what is left is the places.
at::Tensor scores_of_equal_tokens(const MixerUnderTest& mixer, const TokenGrid& grid) {
  at::manual_seed(33);
  const at::Tensor q = at::randn({1, 3, 1, 8}, at::kDouble).expand({1, 3, grid.num_tokens(), 8});
  const at::Tensor k = at::randn({1, 3, 1, 8}, at::kDouble).expand({1, 3, grid.num_tokens(), 8});
  return mixer.mixer().position()->score_rows(q, k, grid, 0).squeeze(0);
}

TEST(PositionRulesTest, AnOverviewIsTurnedAsAPictureOfItsSize) {
  const at::NoGradGuard no_grad;
  for (const PositionSpec& rule : all_rules()) {
    if (!model::find_position_rule(rule.rule).places_overview) continue;
    SCOPED_TRACE(name_of(rule));
    const MixerUnderTest mixer = mixer_with(rule);
    TokenGrid grid = kLarger;
    grid.overview_rows = 3;
    grid.overview_columns = 4;
    const TokenGrid alone{kLarger.num_prefix, 3, 4};
    const Tokens x = exact_tokens(grid);
    const std::int64_t overview = kLarger.num_tokens();
    const model::PositionRule& rope = *mixer.mixer().position();
    const at::Tensor turned = rope.turned(x.q, grid, 0);
    EXPECT_TRUE(all_near(turned.narrow(2, 0, overview),
                         rope.turned(x.q.narrow(2, 0, overview), kLarger, 0), 1e-12));
    EXPECT_TRUE(all_near(turned.slice(2, overview),
                         rope.turned(x.q.slice(2, overview), alone, kLarger.num_prefix), 1e-12));
    // A part that begins in the picture, and one that begins in the overview.
    for (const std::int64_t first : {overview - 2, overview + 5})
      EXPECT_TRUE(all_near(rope.turned(x.q.narrow(2, first, 5), grid, first),
                           turned.narrow(2, first, 5), 1e-12));
    const auto rotation = rope.rotation(grid, x.q.size(3));
    ASSERT_TRUE(rotation);
    EXPECT_EQ(rotation->cosine.size(0), grid.num_image_tokens());
    const MixerUnderTest windows = mixer_with(rule, spec_of("window", {{"size", "2"}}));
    EXPECT_TRUE(all_near(windows.mix(x, grid), windows.mix(x, grid, Kernels::reference), 1e-11));
  }
}

void expect_twin_of_heads(std::int64_t heads, const PositionSpec& rule) {
  SCOPED_TRACE(name_of(rule) + " of " + std::to_string(heads) + " heads");
  const at::NoGradGuard no_grad;
  at::manual_seed(34);
  const HeadShape shape{heads, 4};
  const Tokens x = random_tokens(1, kLarger.num_tokens(), shape, at::kDouble);
  const MixerUnderTest mixer(spec_of("softmax"), kTrained, shape, rule);
  EXPECT_TRUE(all_near(mixer.mix(x, kLarger),
                       position_twin(rule, x.q, x.k, x.v, kLarger, {kTrained}, {}), 1e-12));
}

// The numbers of heads that the authors' code knows; three have fewer directions than there are.
TEST(PositionRulesTest, LookHereOfPublishedHeadsAgreesWithItsTwin) {
  for (const std::int64_t heads : {6, 12, 16})
    for (const char* view : {"180", "90", "45", "none"})
      expect_twin_of_heads(heads, rule_of("lookhere", {{"view", view}}));
}

TEST(PositionRulesTest, AlibisSlopesAreThePublishedOnes) {
  for (const std::int64_t heads : {1, 2, 6, 8}) expect_twin_of_heads(heads, rule_of("alibi"));
}

TEST(PositionRulesTest, ATableOfOneNumberHasItAtEverySize) {
  const at::NoGradGuard no_grad;
  const MixerUnderTest mixer = mixer_with(rule_of("relbias"));
  const std::string name = "rel_pos.relative_position_bias_table";
  // A table of one number by head gives that number to every pair of patches at every size.
  at::Tensor table = at::zeros_like(mixer.tensor(name));
  table.slice(0, 0, table.size(0) - 3).copy_(at::tensor({1.0, 2.0, 3.0}, at::kDouble));
  table.slice(0, table.size(0) - 3).fill_(7.0);
  mixer.set(name, table);
  const at::Tensor plain = [&] {
    mixer.set(name, at::zeros_like(table));
    const at::Tensor scores = scores_of_equal_tokens(mixer, kLarger);
    mixer.set(name, table);
    return scores;
  }();
  const at::Tensor bias = scores_of_equal_tokens(mixer, kLarger) - plain;
  for (std::int64_t head = 0; head < 3; ++head) {
    const at::Tensor patches = bias[head].slice(0, 2).slice(1, 2);
    EXPECT_TRUE(all_near(patches, at::full_like(patches, 1.0 + static_cast<double>(head)), 1e-12));
    const at::Tensor prefix = bias[head].slice(0, 0, 2);
    EXPECT_TRUE(all_near(prefix, at::full_like(prefix, 7), 1e-12));
  }
}

// ---- learned spans, registers or the tokens themselves decide what a patch sees

/// Two of the prefix tokens are registers.
const TokenGrid kRegisters{3, 4, 5, 0, 0, 2};

/// Every rule, and two of their options.
std::vector<PositionSpec> rules() {
  std::vector<PositionSpec> list{{"rope", {{"variant", "mixed"}}}, {"shaw", {{"values", "on"}}}};
  for (const model::PositionEntry* entry : model::position_rules())
    list.push_back({entry->name, {}});
  return list;
}

/// A rule multiplies a map's weights by e^(s' - s): `turned` are q and k as the scores s take them.
at::Tensor expected_output(const MixerUnderTest& mixer, const model::AttentionSpec& spec,
                           const PositionSpec& rule, const Tokens& x) {
  const Parameters parameters = parameters_of(mixer);
  const auto turned = [&](const at::Tensor& t) {
    return position_turned(rule, t, kRegisters, {kRegisters}, parameters);
  };
  const std::int64_t n = kRegisters.num_tokens();
  const at::Tensor one_hot = at::eye(n, at::kDouble).expand({2, kShape.num_heads, n, n});
  const at::Tensor map =
      twin(spec, turned(x.q), turned(x.k), one_hot, kRegisters, kRegisters, parameters)
          .unflatten(2, {kShape.num_heads, n})
          .transpose(1, 2);
  const bool shares = spec.options.contains("share_qk");
  const at::Tensor keys = shares ? x.q / x.q.norm(2, -1, true) : x.k;
  const RuledPairs pairs = position_pairs(rule, x.q, keys, kRegisters, {kRegisters}, parameters);
  const at::Tensor plain = at::matmul(turned(x.q), turned(keys).transpose(2, 3)) / std::sqrt(8.0);
  const at::Tensor weights = map * (pairs.scores - plain).exp();
  return averaged(weights / weights.sum(-1, true), x.v, pairs);
}

class ContentPositionTest : public ::testing::TestWithParam<model::AttentionSpec> {};

TEST_P(ContentPositionTest, EveryRuleChangesTheScoresOfWhatIsSeen) {
  for (const PositionSpec& rule : rules()) {
    SCOPED_TRACE(rule.rule + (rule.options.empty() ? "" : " with an option"));
    // A span that is the query's is that of the query as it was projected.
    if (rule.rule == "rope" && GetParam().options.contains("dynamic")) continue;
    const MixerUnderTest mixer = mixer_with(rule, GetParam(), kRegisters, 51);
    const Tokens x = exact_tokens(kRegisters, 52).leaves();
    std::vector<at::Tensor> inputs{x.q, x.k, x.v};
    for (const auto& item : mixer.owner().named_parameters()) inputs.push_back(item.value());
    const at::Tensor weight = at::randn({2, kRegisters.num_tokens(), 24}, at::kDouble);
    const auto gradients = [&](const at::Tensor& y) {
      return torch::autograd::grad({(y * weight).sum()}, inputs, {}, std::nullopt, false,
                                   /*allow_unused=*/true);
    };
    const at::Tensor expected = expected_output(mixer, GetParam(), rule, x);
    const auto wanted = gradients(expected);
    for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
      const at::Tensor y = mixer.mix(x, kRegisters, kernels);
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
  const model::AttentionSpec spec = spec_of("sinkhorn", {{"tile", "2x3"}});
  for (const PositionSpec& rule :
       {PositionSpec{"rope", {}}, PositionSpec{"rope", {{"variant", "mixed"}}}}) {
    const MixerUnderTest mixer = mixer_with(rule, spec, kRegisters, 51);
    const Tokens x = exact_tokens(kRegisters, 52);
    const at::Tensor expected = expected_output(mixer, spec, rule, x);
    for (const Kernels kernels : {Kernels::fused, Kernels::reference})
      EXPECT_TRUE(all_near(mixer.mix(x, kRegisters, kernels), expected, 1e-11));
  }
}

TEST(SinkhornPositionTest, OneTileUnderARuleIsSoftmaxUnderIt) {
  const at::NoGradGuard no_grad;
  for (const PositionSpec& rule : rules()) {
    SCOPED_TRACE(rule.rule);
    if (rule.options.contains("values")) {
      EXPECT_THROW(mixer_with(rule, spec_of("sinkhorn"), kRegisters, 51), Error);
      continue;
    }
    const Tokens x = exact_tokens(kRegisters, 52);
    // The rule's parameters are those of softmax's layer.
    const MixerUnderTest mixer = mixer_with(rule, spec_of("sinkhorn"), kRegisters, 51);
    const MixerUnderTest softmax = mixer_with(rule, spec_of("softmax"), kRegisters, 51);
    for (const auto& item : softmax.owner().named_parameters()) mixer.set(item.key(), item.value());
    const at::Tensor expected = softmax.mix(x, kRegisters);
    for (const Kernels kernels : {Kernels::fused, Kernels::reference})
      EXPECT_TRUE(all_near(mixer.mix(x, kRegisters, kernels), expected, 1e-11));
  }
}

}  // namespace position_rules_test
}  // namespace hydrascope::testing
