// Gradients of every entry of the registry on all of its options: the reference form against
// central differences, the fused form against the reference form.
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/attention/registry_cases.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrascope::testing {
namespace {

using model::AttentionSpec;
using model::Kernels;
using model::TokenGrid;

class ConformanceGradientTest : public RegistryCase {};

const HeadShape kShape{2, 4};

/// sum(y * projection): a scalar that every output takes part in.
class Loss {
 public:
  Loss(const AttentionSpec& spec, const TokenGrid& grid) : mixer_(spec, grid, kShape), grid_(grid) {
    mixer_.make_exact();
    tokens_ = random_tokens(2, grid.num_tokens(), kShape, at::kDouble).leaves();
    projection_ =
        at::randn({2, grid.num_tokens(), kShape.num_heads * kShape.head_dim}, at::kDouble);
    variables_ = {{"q", tokens_.q}, {"k", tokens_.k}, {"v", tokens_.v}};
    for (const auto& item : mixer_.owner().named_parameters())
      variables_.emplace_back(item.key(), item.value());
  }

  [[nodiscard]] const std::vector<std::pair<std::string, at::Tensor>>& variables() const {
    return variables_;
  }

  [[nodiscard]] double value(Kernels kernels) const {
    const at::NoGradGuard no_grad;
    return tensor(kernels).item<double>();
  }

  /// In the order of `variables`, zeros where the loss does not depend on one.
  [[nodiscard]] std::vector<at::Tensor> gradients(Kernels kernels) const {
    std::vector<at::Tensor> inputs;
    for (const auto& [name, variable] : variables_) inputs.push_back(variable);
    std::vector<at::Tensor> result =
        torch::autograd::grad({tensor(kernels)}, inputs, {}, std::nullopt, false, true);
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (!result[i].defined()) result[i] = at::zeros_like(inputs[i]);
    }
    return result;
  }

 private:
  [[nodiscard]] at::Tensor tensor(Kernels kernels) const {
    return (mixer_.mix(tokens_, grid_, kernels) * projection_).sum();
  }

  MixerUnderTest mixer_;
  TokenGrid grid_;
  Tokens tokens_;
  at::Tensor projection_;
  std::vector<std::pair<std::string, at::Tensor>> variables_;
};

/// (f(x + h u) - f(x - h u)) / 2h for a unit vector u.
double central_difference(const Loss& loss, at::Tensor variable, const at::Tensor& direction) {
  constexpr double kStep = 1e-5;
  const at::NoGradGuard no_grad;
  const at::Tensor before = variable.clone();
  variable.add_(direction, kStep);
  const double above = loss.value(Kernels::reference);
  variable.copy_(before).sub_(direction, kStep);
  const double below = loss.value(Kernels::reference);
  variable.copy_(before);
  return (above - below) / (2 * kStep);
}

const std::vector<TokenGrid> kGrids{{1, 2, 3}, {2, 3, 4}};

TEST_P(ConformanceGradientTest, ReferenceFormAgreesWithFiniteDifferences) {
  constexpr int kDirections = 3;
  for (const AttentionSpec& spec : variants(entry())) {
    at::manual_seed(1);
    const Loss loss(spec, kGrids[0]);
    const std::vector<at::Tensor> gradients = loss.gradients(Kernels::reference);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const auto& [name, variable] = loss.variables()[i];
      for (int repetition = 0; repetition < kDirections; ++repetition) {
        at::Tensor direction = at::randn_like(variable.detach());
        direction = direction / direction.norm();
        const double slope = central_difference(loss, variable, direction);
        EXPECT_NEAR((gradients[i] * direction).sum().item<double>(), slope,
                    1e-6 * (1 + gradients[i].norm().item<double>()))
            << describe(spec) << ", " << name;
      }
    }
  }
}

TEST_P(ConformanceGradientTest, FusedFormAgreesWithTheReferenceForm) {
  for (const AttentionSpec& spec : variants(entry())) {
    for (const TokenGrid& grid : kGrids) {
      at::manual_seed(2);
      const Loss loss(spec, grid);
      const std::vector<at::Tensor> fused = loss.gradients(Kernels::fused);
      const std::vector<at::Tensor> reference = loss.gradients(Kernels::reference);
      for (std::size_t i = 0; i < fused.size(); ++i) {
        // Some gradients are zero (one key, a constant), where rounding has nothing to compare to.
        const double scale = 1e-3 + reference[i].abs().max().item<double>();
        EXPECT_LT((fused[i] - reference[i]).abs().max().item<double>(), 1e-9 * scale)
            << describe(spec) << ", " << loss.variables()[i].first;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, ConformanceGradientTest, all_entries(), entry_name);

}  // namespace
}  // namespace hydrascope::testing
