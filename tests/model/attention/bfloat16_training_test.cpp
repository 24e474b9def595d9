// Training with bfloat16 tokens and float32 weights: learned maps with bounded features then
// multiply in bfloat16. Values and gradients against autograd of the naive twin in double.
#include "tests/model/attention/mixer_under_test.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrascope::testing {
namespace bfloat16_training_test {

using model::Kernels;
using model::TokenGrid;

const HeadShape kShape{3, 16};

struct Computed {
  at::Tensor y;
  std::vector<at::Tensor> gradients;  ///< of q, k, v and the parameters
};

template <class Function>
Computed compute(const Tokens& tokens, const MixerUnderTest& mixer, const at::Tensor& projection,
                 Function&& function) {
  std::vector<at::Tensor> inputs{tokens.q, tokens.k, tokens.v};
  for (const at::Tensor& parameter : mixer.owner().parameters()) inputs.push_back(parameter);
  const at::Tensor y = function();
  const at::Tensor loss = (y.to(at::kDouble) * projection).sum();
  return {y.detach(), torch::autograd::grad({loss}, inputs)};
}

TEST(Bfloat16TrainingTest, BoundedFeaturesGiveTheTwinsNumbersAndGradients) {
  for (const char* variant : {"softmax2", "softmax1"}) {
    for (const TokenGrid& grid :
         {TokenGrid{1, 0, 0}, TokenGrid{1, 5, 6}, TokenGrid{1, 14, 14}, TokenGrid{1, 24, 24}}) {
      SCOPED_TRACE(std::string(variant) + " of " + std::to_string(grid.num_tokens()) + " tokens");
      at::manual_seed(31);
      const MixerUnderTest mixer(spec_of("hedgehog", {{"variant", variant}}), grid, kShape);
      const Tokens half =
          random_tokens(2, grid.num_tokens(), kShape, at::kFloat).to(at::kBFloat16).leaves();
      // The twin starts from the rounded tokens: what is compared is the arithmetic.
      const Tokens exact = half.to(at::kDouble).leaves();
      const at::Tensor projection =
          at::randn({2, grid.num_tokens(), kShape.num_heads * kShape.head_dim}, at::kDouble);
      const Computed found =
          compute(half, mixer, projection, [&] { return mixer.mix(half, grid); });
      EXPECT_EQ(found.y.scalar_type(), at::kBFloat16);
      const Computed expected =
          compute(exact, mixer, projection, [&] { return mixer.twin(exact, grid); });
      // bfloat16 keeps 8 bits; errors of products add up as random ones do.
      constexpr double kTolerance = 0.02;
      EXPECT_LT(relative_l2(found.y, expected.y), kTolerance);
      ASSERT_EQ(found.gradients.size(), expected.gradients.size());
      for (std::size_t i = 0; i < found.gradients.size(); ++i) {
        // A single token's weight is 1 whatever q and k are: nothing to compare but zero.
        if (grid.num_tokens() == 1 && i != 2) continue;
        EXPECT_LT(relative_l2(found.gradients[i], expected.gradients[i]), 2 * kTolerance)
            << "gradient " << i;
      }
    }
  }
}

// A query whose features no key has: its weights vanish, and 0 / 0 would be NaN.
TEST(Bfloat16TrainingTest, AQueryThatNoKeyAnswersGivesNoNan) {
  const TokenGrid grid{1, 5, 6};
  const MixerUnderTest mixer(spec_of("hedgehog", {{"variant", "softmax1"}}), grid, kShape);
  const Tokens tokens =
      random_tokens(1, grid.num_tokens(), kShape, at::kFloat).to(at::kBFloat16).leaves();
  {
    const at::NoGradGuard no_grad;
    for (const auto& [rows, feature] : {std::pair{tokens.q, 0}, std::pair{tokens.k, 1}})
      rows.zero_().select(-1, feature).fill_(300);
  }
  const at::Tensor y = mixer.mix(tokens, grid);
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  const auto gradients = torch::autograd::grad({y.to(at::kFloat).sum()}, {tokens.q, tokens.v});
  for (const at::Tensor& gradient : gradients) EXPECT_TRUE(gradient.isfinite().all().item<bool>());
}

}  // namespace bfloat16_training_test
}  // namespace hydrascope::testing
