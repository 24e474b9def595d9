#include "model/training/optimizer.h"

#include "model/training/parameter_average.h"
#include "tests/error_matchers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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

}  // namespace
}  // namespace hydrascope::model::training
