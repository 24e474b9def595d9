#include "model/training/optimizer.h"

#include "model/checkpoint/hub/key_map.h"
#include "model/training/parameter_average.h"
#include "model/training/parameter_groups.h"
#include "model/training/schedule.h"
#include "tests/error_matchers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace hydrascope::model::training {
namespace {

constexpr double kLearningRate = 0.03;

/// Two groups; the second one's parameter is a matrix whose gradient may lie transposed.
std::vector<ParameterGroup> two_groups() {
  ParameterGroup plain, decayed;
  plain.parameters = {{"a", at::randn({7})}, {"b", at::randn({2, 3})}};
  plain.learning_rate_scale = 0.5;
  decayed.parameters = {{"c", at::randn({4, 5})}};
  decayed.weight_decay = 0.1;
  return {plain, decayed};
}

NamedTensors flattened(const std::vector<ParameterGroup>& groups) {
  NamedTensors all;
  for (const ParameterGroup& group : groups)
    all.insert(all.end(), group.parameters.begin(), group.parameters.end());
  return all;
}

std::vector<at::Tensor> copies(const Optimizer& optimizer) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : optimizer.parameters()) all.push_back(parameter.clone());
  return all;
}

void set_random_gradients(const Optimizer& optimizer) {
  for (const at::Tensor& parameter : optimizer.parameters())
    parameter.mutable_grad() = at::randn_like(parameter);
}

/// The update of one parameter in double, by the formulas of the papers.
struct Twin {
  at::Tensor value, first, second;
  double rate, weight_decay;
  std::int64_t steps = 0;

  void adamw(const at::Tensor& gradient, const OptimizerOptions& options) {
    ++steps;
    const auto [beta1, beta2] = options.betas;
    const auto t = static_cast<double>(steps);
    first = beta1 * first + (1 - beta1) * gradient;
    second = beta2 * second + (1 - beta2) * gradient * gradient;
    const at::Tensor mean = first / (1 - std::pow(beta1, t));
    const at::Tensor deviation = (second / (1 - std::pow(beta2, t))).sqrt();
    value = value - rate * (mean / (deviation + options.eps) + weight_decay * value);
  }
  void sgd(const at::Tensor& gradient, const OptimizerOptions& options) {
    const at::Tensor decayed = gradient + weight_decay * value;
    first = options.momentum * first + decayed;
    value = value - rate * (decayed + options.momentum * first);
  }
};

void expect_formula(const OptimizerOptions& options) {
  at::manual_seed(3);
  Optimizer optimizer(two_groups(), options);
  std::vector<Twin> twins;
  for (const ParameterGroup& group : optimizer.groups()) {
    for (const auto& [name, parameter] : group.parameters) {
      const at::Tensor value = parameter.to(at::kDouble);
      twins.push_back({value, at::zeros_like(value), at::zeros_like(value),
                       kLearningRate * group.learning_rate_scale, group.weight_decay});
    }
  }
  for (int step = 0; step < 6; ++step) {
    set_random_gradients(optimizer);
    const std::vector<at::Tensor> parameters = optimizer.parameters();
    for (std::size_t i = 0; i < twins.size(); ++i) {
      const at::Tensor gradient = parameters[i].grad().to(at::kDouble);
      options.kind == OptimizerKind::adamw ? twins[i].adamw(gradient, options)
                                           : twins[i].sgd(gradient, options);
    }
    optimizer.step(kLearningRate);
    for (std::size_t i = 0; i < twins.size(); ++i) {
      const double error =
          (parameters[i].to(at::kDouble) - twins[i].value).abs().max().item<double>();
      EXPECT_LT(error, 2e-6) << "parameter " << i << " after step " << step;
    }
  }
}

TEST(OptimizerTest, AdamwIsItsFormula) { expect_formula({}); }

TEST(OptimizerTest, SgdIsItsFormula) {
  OptimizerOptions options;
  options.kind = OptimizerKind::sgd;
  expect_formula(options);
  options.momentum = 0;
  expect_formula(options);
  EXPECT_TRUE(Optimizer(two_groups(), options).state().empty());
}

TEST(OptimizerTest, LeavesParametersWithoutAGradientAndTheirState) {
  at::manual_seed(4);
  Optimizer optimizer(two_groups(), {});
  set_random_gradients(optimizer);
  optimizer.parameters()[1].mutable_grad().reset();
  const std::vector<at::Tensor> before = copies(optimizer);
  optimizer.step(kLearningRate);
  EXPECT_FALSE(at::equal(optimizer.parameters()[0], before[0]));
  EXPECT_TRUE(at::equal(optimizer.parameters()[1], before[1]));
  for (const auto& [name, tensor] : optimizer.state()) {
    if (name.starts_with("step.")) {
      EXPECT_EQ(tensor.item<float>(), name == "step.b" ? 0 : 1) << name;
    }
  }
  optimizer.zero_grad();
  for (const at::Tensor& parameter : optimizer.parameters())
    EXPECT_FALSE(parameter.grad().defined());
}

TEST(OptimizerTest, TakesGradientsThatLieOtherwise) {
  at::manual_seed(5);
  Optimizer plain({{.parameters = {{"c", at::ones({4, 5})}}}}, {});
  Optimizer transposed({{.parameters = {{"c", at::ones({4, 5})}}}}, {});
  const at::Tensor gradient = at::randn({4, 5});
  plain.parameters()[0].mutable_grad() = gradient;
  transposed.parameters()[0].mutable_grad() = gradient.t().contiguous().t();
  plain.step(kLearningRate);
  transposed.step(kLearningRate);
  EXPECT_TRUE(at::equal(plain.parameters()[0], transposed.parameters()[0]));
}

TEST(OptimizerTest, GoesOnBitForBitFromItsState) {
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd}) {
    at::manual_seed(6);
    OptimizerOptions options;
    options.kind = kind;
    Optimizer original(two_groups(), options);
    for (int step = 0; step < 3; ++step) {
      set_random_gradients(original);
      original.step(kLearningRate);
    }
    Optimizer resumed(two_groups(), options);
    for (std::size_t i = 0; i < resumed.parameters().size(); ++i)
      resumed.parameters()[i].copy_(original.parameters()[i]);
    resumed.load_state(original.state());
    for (int step = 0; step < 3; ++step) {
      set_random_gradients(original);
      for (std::size_t i = 0; i < resumed.parameters().size(); ++i)
        resumed.parameters()[i].mutable_grad() = original.parameters()[i].grad().clone();
      original.step(kLearningRate);
      resumed.step(kLearningRate);
    }
    for (std::size_t i = 0; i < resumed.parameters().size(); ++i)
      EXPECT_TRUE(at::equal(resumed.parameters()[i], original.parameters()[i])) << i;
  }
}

TEST(OptimizerTest, ListsEveryNameThatDoesNotFit) {
  Optimizer optimizer(two_groups(), {});
  NamedTensors state = optimizer.state();
  state[0] = {"exp_avg.else", state[0].second};
  state[1].second = at::zeros({8});
  EXPECT_ERROR(optimizer.load_state(state), failed, "exp_avg.a: missing",
               "exp_avg_sq.a: expected [7], found [8]");
}

TEST(ClipGradientsTest, ScalesTheJointNorm) {
  std::vector<at::Tensor> parameters{at::zeros({1}), at::zeros({1}), at::zeros({3})};
  const auto set = [&](float a, float b) {
    parameters[0].mutable_grad() = at::full({1}, a);
    parameters[1].mutable_grad() = at::full({1}, b);
  };
  set(3, 4);
  const auto clipped_from = [&](double max_norm) { return clip_gradients(parameters, max_norm); };
  EXPECT_DOUBLE_EQ(clipped_from(0), 5);
  EXPECT_EQ(parameters[0].grad().item<float>(), 3);
  EXPECT_DOUBLE_EQ(clipped_from(6), 5);
  EXPECT_EQ(parameters[0].grad().item<float>(), 3);
  EXPECT_DOUBLE_EQ(clipped_from(1), 5);
  EXPECT_FLOAT_EQ(parameters[0].grad().item<float>(), 0.6F);
  EXPECT_FLOAT_EQ(parameters[1].grad().item<float>(), 0.8F);
  set(std::numeric_limits<float>::infinity(), 4);
  EXPECT_FALSE(std::isfinite(clipped_from(1)));
}

TEST(ParameterAverageTest, FollowsItsFormulaAndSwaps) {
  for (const bool warmup : {false, true}) {
    at::manual_seed(7);
    const NamedTensors parameters = flattened(two_groups());
    ParameterAverage average(parameters, 0.9, warmup);
    at::Tensor expected = parameters[0].second.to(at::kDouble);
    for (int t = 0; t < 100; ++t) {
      parameters[0].second.add_(at::randn({7}));
      average.update();
      const double decay = warmup ? std::min(0.9, 1 - std::pow(1.0 + t, -2.0 / 3)) : 0.9;
      expected = decay * expected + (1 - decay) * parameters[0].second;
    }
    const at::Tensor value = parameters[0].second.clone();
    average.swap();
    EXPECT_TRUE(at::allclose(parameters[0].second.to(at::kDouble), expected, 1e-5, 1e-6));
    average.swap();
    EXPECT_TRUE(at::equal(parameters[0].second, value));
  }
}

TEST(ParameterAverageTest, GoesOnBitForBitFromItsState) {
  at::manual_seed(8);
  const NamedTensors parameters = flattened(two_groups());
  ParameterAverage original(parameters, 0.99, true);
  parameters[0].second.add_(1);
  original.update();
  ParameterAverage resumed(parameters, 0.99, true);
  resumed.load_state(original.state());
  parameters[0].second.add_(1);
  original.update();
  resumed.update();
  const NamedTensors a = original.state();
  const NamedTensors b = resumed.state();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
  }
  EXPECT_ERROR(resumed.load_state({}), failed, "ema.a: missing", "ema.updates");
}

struct Settings {
  double scale, decay;
};

std::map<std::string, Settings> settings(const std::vector<ParameterGroup>& groups) {
  std::map<std::string, Settings> by_name;
  for (const ParameterGroup& group : groups)
    for (const auto& [name, parameter] : group.parameters)
      EXPECT_TRUE(by_name.insert({name, {group.learning_rate_scale, group.weight_decay}}).second);
  return by_name;
}

VitConfig narrow() {
  VitConfig config;
  config.img_height = config.img_width = 32;
  config.embed_dim = 24;
  return config;
}

// The groups of timm 1.0.31's param_groups_layer_decay(vit_tiny_patch16_224, 0.05,
// no_weight_decay(), layer_decay=0.75).
TEST(ParameterGroupsTest, AreTimms) {
  VisionTransformer model(narrow());
  ParameterGroupOptions options;
  options.layer_decay = 0.75;
  const std::vector<ParameterGroup> groups = parameter_groups(*model, options);
  EXPECT_EQ(groups.size(), 28U);
  const auto found = settings(groups);
  EXPECT_EQ(found.size(), model->parameters().size());
  const std::map<std::string, Settings> expected{
      {"cls_token", {0.023757264018058777, 0}},
      {"pos_embed", {0.023757264018058777, 0}},
      {"patch_embed.proj.bias", {0.023757264018058777, 0}},
      {"patch_embed.proj.weight", {0.023757264018058777, 0.05}},
      {"blocks.0.norm1.weight", {0.03167635202407837, 0}},
      {"blocks.0.attn.qkv.bias", {0.03167635202407837, 0}},
      {"blocks.0.attn.qkv.weight", {0.03167635202407837, 0.05}},
      {"blocks.5.mlp.fc2.weight", {0.13348388671875, 0.05}},
      {"blocks.10.attn.proj.weight", {0.5625, 0.05}},
      {"blocks.11.mlp.fc1.bias", {0.75, 0}},
      {"norm.weight", {0.75, 0}},
      {"head.weight", {1, 0.05}},
      {"head.bias", {1, 0}},
  };
  for (const auto& [name, settings] : expected) {
    EXPECT_NEAR(found.at(name).scale, settings.scale, 1e-12) << name;
    EXPECT_EQ(found.at(name).decay, settings.decay) << name;
  }
}

TEST(ParameterGroupsTest, TokensAndLayerScalesAreNotDecayed) {
  VitConfig config = narrow();
  config.depth = 1;
  config.distilled = true;
  config.reg_tokens = 2;
  config.layer_scale = true;
  VisionTransformer model(config);
  const auto found = settings(parameter_groups(*model, {}));
  for (const char* name : {"dist_token", "reg_token", "blocks.0.ls1.gamma"})
    EXPECT_EQ(found.at(name).decay, 0) << name;
  EXPECT_EQ(found.at("head_dist.weight").decay, 0.05);
}

TEST(ParameterGroupsTest, MechanismsLearnFaster) {
  VitConfig config = narrow();
  config.depth = 2;
  config.attention = {{"softmax", {}}, {"hedgehog", {}}};
  VisionTransformer model(config);
  ParameterGroupOptions options;
  options.mechanism_rate_scale = 3;
  options.layer_decay = 0.5;
  int mechanism = 0;
  for (const auto& [name, settings] : settings(parameter_groups(*model, options))) {
    if (!checkpoint::is_mechanism_tensor(name)) continue;
    ++mechanism;
    EXPECT_DOUBLE_EQ(settings.scale, 1.5) << name;
    EXPECT_EQ(settings.decay, name.ends_with(".bias") ? 0 : 0.05) << name;
  }
  EXPECT_EQ(mechanism, 4);
  EXPECT_FALSE(checkpoint::is_mechanism_tensor("blocks.1.attn.qkv.weight"));
  EXPECT_FALSE(checkpoint::is_mechanism_tensor("blocks.1.mlp.fc1.weight"));
}

TEST(ParameterGroupsTest, PatternsChooseWhatIsTrained) {
  VisionTransformer model(narrow());
  ParameterGroupOptions options;
  options.train = {"blocks.1", "blocks.1?.attn.*", "head"};
  options.freeze = {"*.bias"};
  const auto found = settings(parameter_groups(*model, options));
  EXPECT_EQ(found.count("blocks.1.mlp.fc1.weight"), 1U);
  EXPECT_EQ(found.count("blocks.1.mlp.fc1.bias"), 0U);
  EXPECT_EQ(found.count("blocks.10.attn.qkv.weight"), 1U);
  EXPECT_EQ(found.count("blocks.10.mlp.fc1.weight"), 0U);
  EXPECT_EQ(found.count("head.weight"), 1U);
  for (const auto& item : model->named_parameters())
    EXPECT_EQ(item.value().requires_grad(), found.count(item.key()) == 1) << item.key();
  parameter_groups(*model, {});
  EXPECT_TRUE(model->named_parameters()["pos_embed"].requires_grad());
}

TEST(ParameterGroupsTest, RefusesPatternsWithoutEffect) {
  VisionTransformer model(narrow());
  ParameterGroupOptions options;
  options.freeze = {"block.*"};
  EXPECT_ERROR(parameter_groups(*model, options), invalid_argument, "block.*");
  options.freeze = {"*"};
  EXPECT_ERROR(parameter_groups(*model, options), invalid_argument, "nothing is left");
}

ScheduleOptions warmed_up(const std::string& kind) {
  ScheduleOptions options;
  options.kind = kind;
  options.learning_rate = 1e-3;
  options.steps = 100;
  options.warmup_steps = 5;
  options.warmup_learning_rate = 1e-6;
  return options;
}

void expect_rates(const ScheduleOptions& options,
                  const std::vector<std::pair<std::int64_t, double>>& expected) {
  validate(options);
  for (const auto& [step, rate] : expected)
    EXPECT_NEAR(learning_rate(options, step), rate, 1e-12 * rate) << options.kind << " at " << step;
}

// The values of timm 1.0.31's schedulers with t_in_epochs=False, warmup_prefix=False.
TEST(ScheduleTest, CosineIsTimms) {
  ScheduleOptions options = warmed_up("cosine");
  options.min_learning_rate = 1e-5;
  expect_rates(options, {{0, 1e-06},
                         {1, 0.00020080000000000003},
                         {4, 0.0008002000000000002},
                         {5, 0.0009939057285945933},
                         {6, 0.000991232189110701},
                         {50, 0.000505},
                         {99, 1.0244252618962858e-05}});
}

TEST(ScheduleTest, LinearIsTimmsPolynomialOfPowerOne) {
  ScheduleOptions options = warmed_up("linear");
  options.min_learning_rate = 1e-5;
  expect_rates(options,
               {{1, 0.00020080000000000003}, {5, 0.0009505}, {50, 0.000505}, {99, 1.99e-05}});
}

TEST(ScheduleTest, StaysBehindTheEndAndNeedNotWarmUp) {
  ScheduleOptions options = warmed_up("cosine");
  EXPECT_EQ(learning_rate(options, 100), learning_rate(options, 99));
  options.warmup_steps = 0;
  EXPECT_EQ(learning_rate(options, 0), 1e-3);
  options = warmed_up("constant");
  EXPECT_EQ(learning_rate(options, 5), 1e-3);
  EXPECT_EQ(learning_rate(options, 99), 1e-3);
}

TEST(ScheduleTest, RefusesWhatMakesNoSchedule) {
  ScheduleOptions options = warmed_up("cosin");
  EXPECT_ERROR(validate(options), invalid_argument, "cosin", "cosine, linear");
  options = warmed_up("cosine");
  options.learning_rate = -1;
  EXPECT_ERROR(validate(options), invalid_argument, "learning rate");
  options.learning_rate = -1e-9;
  EXPECT_ERROR(validate(options), invalid_argument, "found -1e-");  // and not -0.000000
  options = warmed_up("cosine");
  options.steps = 0;
  EXPECT_ERROR(validate(options), invalid_argument, "steps");
}

}  // namespace
}  // namespace hydrascope::model::training
