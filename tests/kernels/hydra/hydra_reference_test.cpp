// backward_reference's formulas against differences of forward_reference, both in float64.
#include "tests/kernels/hydra/hydra_reference.h"

#include "tests/kernels/fills.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace hydrascope::kernels::test {
namespace hydra_reference_test {

constexpr std::int64_t kTokens = 4;
constexpr std::int64_t kDim = 5;
constexpr std::size_t kValues = kTokens * kDim;

std::vector<double> normal(unsigned seed, std::size_t count = kValues) {
  std::vector<float> values(count);
  fill(values, Fill::normal, seed);
  return {values.begin(), values.end()};
}

struct Picture {
  std::vector<double> q = normal(1);
  std::vector<double> k = normal(2);
  std::vector<double> v = normal(3);
  std::vector<double> grad_y = normal(4);
  std::vector<float> scale = {0.5F, -2.0F, 0.0F, 1.0F, 3.0F};
  hydra::Kernel kernel;

  [[nodiscard]] hydra::Tokens<double> tokens() const {
    return {q.data(), kDim,    kTokens, k.data(), kDim,           v.data(),
            kDim,     kTokens, kDim,    kernel,   {1, 0.5, 1.25}, scale.data()};
  }
  /// grad_y . y
  [[nodiscard]] double loss() const {
    const hydra::ForwardResult result = hydra::forward_reference(tokens());
    double sum = 0;
    for (std::size_t i = 0; i < kValues; ++i) sum += grad_y[i] * result.y.values[i];
    return sum;
  }
  [[nodiscard]] hydra::BackwardResult gradients() const {
    return hydra::backward_reference(tokens(), grad_y.data(), kDim);
  }
};

void expect_differences(Picture& picture, std::vector<double>& input,
                        const std::vector<double>& gradient) {
  constexpr double kStep = 1e-5;
  ASSERT_EQ(gradient.size(), input.size());
  for (std::size_t i = 0; i < input.size(); ++i) {
    const double value = input[i];
    input[i] = value + kStep;
    const double above = picture.loss();
    input[i] = value - kStep;
    const double below = picture.loss();
    input[i] = value;
    EXPECT_NEAR((above - below) / (2 * kStep), gradient[i], 1e-7) << "value " << i;
  }
}

TEST(HydraReference, GradientsAreDifferencesForEveryNorm) {
  using hydra::Norm;
  for (const Norm norm_q : {Norm::l2, Norm::l1, Norm::none})
    for (const Norm norm_k : {Norm::l2, Norm::l1, Norm::none}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(norm_q)) + ", " +
                   std::to_string(static_cast<int>(norm_k)));
      Picture picture;
      picture.kernel = {{norm_q, 0.4F}, {norm_k, 0.4F}};  // smaller than every row
      const hydra::BackwardResult gradients = picture.gradients();
      expect_differences(picture, picture.q, gradients.grad_q.values);
      expect_differences(picture, picture.k, gradients.grad_k.values);
      expect_differences(picture, picture.v, gradients.grad_v.values);
    }
}

TEST(HydraReference, TheGradientOfTheFeatureScaleIsThatOfALinearFactor) {
  Picture picture;
  const hydra::BackwardResult gradients = picture.gradients();
  for (std::size_t f = 0; f < kDim; ++f) {
    Picture other = picture;
    other.scale[f] += 1;
    EXPECT_NEAR(other.loss() - picture.loss(), gradients.grad_feature_scale.values[f], 1e-12);
  }
}

TEST(HydraReference, ATokenBelowEpsIsAConstant) {
  Picture picture;
  for (std::size_t f = 0; f < kDim; ++f) picture.k[2 * kDim + f] = 1e-8;
  const hydra::BackwardResult gradients = picture.gradients();
  for (std::size_t i = 0; i < kValues; ++i)
    EXPECT_EQ(gradients.grad_k.values[i] == 0, i / kDim == 2) << i;
  expect_differences(picture, picture.v, gradients.grad_v.values);
}

}  // namespace hydra_reference_test
}  // namespace hydrascope::kernels::test
