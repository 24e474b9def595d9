// Gradients of every entry of the registry on all of its options: the reference form against
// central differences, both forms against autograd of the naive twin.
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/attention/registry_cases.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrascope::testing {
namespace conformance_gradient_test {

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

  [[nodiscard]] at::Tensor of_mixer(Kernels kernels) const {
    return (mixer_.mix(tokens_, grid_, kernels) * projection_).sum();
  }
  [[nodiscard]] at::Tensor of_twin() const {
    return (mixer_.twin(tokens_, grid_) * projection_).sum();
  }

  /// In the order of `variables`, zeros where `loss` does not depend on one.
  [[nodiscard]] std::vector<at::Tensor> gradients(const at::Tensor& loss) const {
    std::vector<at::Tensor> inputs;
    for (const auto& [name, variable] : variables_) inputs.push_back(variable);
    std::vector<at::Tensor> result =
        torch::autograd::grad({loss}, inputs, {}, std::nullopt, false, true);
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (!result[i].defined()) result[i] = at::zeros_like(inputs[i]);
    }
    return result;
  }

 private:
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
  const double above = loss.of_mixer(Kernels::reference).item<double>();
  variable.copy_(before).sub_(direction, kStep);
  const double below = loss.of_mixer(Kernels::reference).item<double>();
  variable.copy_(before);
  return (above - below) / (2 * kStep);
}

const TokenGrid kSmall{1, 2, 3};
/// More tokens than one chunk of the causal form.
const TokenGrid kLarger{2, 12, 13};

TEST_P(ConformanceGradientTest, ReferenceFormAgreesWithFiniteDifferences) {
  constexpr int kDirections = 3;
  for (const AttentionSpec& spec : variants(entry())) {
    at::manual_seed(1);
    const Loss loss(spec, kSmall);
    const std::vector<at::Tensor> gradients = loss.gradients(loss.of_mixer(Kernels::reference));
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

TEST_P(ConformanceGradientTest, BothFormsAgreeWithTheTwin) {
  for (const AttentionSpec& spec : variants(entry())) {
    for (const TokenGrid& grid : {kSmall, kLarger}) {
      at::manual_seed(2);
      const Loss loss(spec, grid);
      const std::vector<at::Tensor> expected = loss.gradients(loss.of_twin());
      for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
        const std::vector<at::Tensor> found = loss.gradients(loss.of_mixer(kernels));
        for (std::size_t i = 0; i < found.size(); ++i) {
          // Some gradients are zero (one key, a constant): rounding has nothing to compare to.
          const double scale = 1e-3 + expected[i].abs().max().item<double>();
          EXPECT_LT((found[i] - expected[i]).abs().max().item<double>(), 1e-9 * scale)
              << describe(spec) << ", " << loss.variables()[i].first << ", "
              << (kernels == Kernels::fused ? "fused, " : "reference, ") << grid.num_tokens();
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, ConformanceGradientTest, all_entries(), entry_name);

}  // namespace conformance_gradient_test
}  // namespace hydrascope::testing
