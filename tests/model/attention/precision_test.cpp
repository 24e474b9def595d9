// Storage of 16 bits at full-HD numbers of tokens: case 40 of the mathematical reference, and
// results that depend neither on threads nor on the batch.
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::testing {
namespace precision_test {

using model::Kernels;
using model::TokenGrid;

const TokenGrid kFullHd{1, 68, 120};  // 8161 tokens
const HeadShape kOneHead{1, 64};

/// N(0.5, 1), rounded to bfloat16.
Tokens stored_tokens(std::uint64_t seed) {
  at::manual_seed(seed);
  const Tokens tokens = random_tokens(1, kFullHd.num_tokens(), kOneHead, at::kFloat);
  return Tokens{tokens.q + 0.5, tokens.k + 0.5, tokens.v + 0.5}.to(at::kBFloat16);
}

constexpr std::int64_t kFirst = 4000;
constexpr std::int64_t kCount = 100;

void expect_precise(const char* mechanism) {
  const c10::InferenceMode inference;
  const Tokens stored = stored_tokens(1);
  const Tokens exact = stored.to(at::kDouble);
  const MixerUnderTest in_double = plain_mixer(spec_of(mechanism), kFullHd, kOneHead);
  const at::Tensor rows =
      in_double.mixer().attention_rows(exact.q, exact.k, kFullHd, kFirst, kCount);
  const at::Tensor expected = rows.defined()
                                  ? model::merge_heads(rows.matmul(exact.v))
                                  : in_double.mix(exact, kFullHd).narrow(1, kFirst, kCount);
  const MixerUnderTest mixer(spec_of(mechanism), kFullHd, kOneHead);
  mixer.set_identity_maps();
  const at::Tensor in_float = mixer.mix(stored.to(at::kFloat), kFullHd).narrow(1, kFirst, kCount);
  EXPECT_LT(relative_l2(in_float, expected), 1e-4) << mechanism;
  const at::Tensor in_bfloat = mixer.mix(stored, kFullHd).narrow(1, kFirst, kCount);
  EXPECT_EQ(in_bfloat.scalar_type(), at::kBFloat16);
  EXPECT_LT(relative_l2(in_bfloat, expected), 1e-2) << mechanism;
}

TEST(PrecisionTest, AttentionCase40HydraAtFullHd) { expect_precise("hydra"); }
TEST(PrecisionTest, AttentionCase40HedgehogAtFullHd) { expect_precise("hedgehog"); }
TEST(PrecisionTest, AttentionCase40EluAtFullHd) { expect_precise("elu"); }
TEST(PrecisionTest, AttentionCase40SoftmaxAtFullHd) { expect_precise("softmax"); }

/// A running sum of 8161 ones stops at 256 in bfloat16 and at 2048 in float16.
TEST(PrecisionTest, AttentionCase40SumsOfOnesDoNotStop) {
  const c10::InferenceMode inference;
  const at::Tensor ones = at::ones({1, 1, kFullHd.num_tokens(), 4});
  const MixerUnderTest hydra = plain_mixer(spec_of("hydra", {{"scale", "none"}}), kFullHd, {1, 4});
  const double expected = static_cast<double>(kFullHd.num_tokens()) / 4;  // qh * kh = 1 / D
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
      const at::Tensor x = ones.to(type);
      const at::Tensor y = hydra.mix({x, x, x}, kFullHd, kernels).to(at::kDouble);
      EXPECT_NEAR(y[0][17][2].item<double>(), expected, expected / 200) << at::toString(type);
    }
  }
}

TEST(PrecisionTest, AttentionCase40NormsBeyondHalfPrecision) {
  const c10::InferenceMode inference;
  const TokenGrid grid{1, 3, 4};
  at::manual_seed(2);
  Tokens tokens = random_tokens(1, grid.num_tokens(), kOneHead, at::kDouble);
  tokens.q = 300 * tokens.q / tokens.q.norm(2, -1, true);  // |q|^2 = 90000 > 65504
  tokens.k = 300 * tokens.k / tokens.k.norm(2, -1, true);
  const Tokens half = tokens.to(at::kHalf);
  for (const char* const name : {"hydra", "mla", "cos", "rfa"}) {
    const MixerUnderTest mixer = plain_mixer(spec_of(name), grid, kOneHead);
    const at::Tensor expected = mixer.mix(half.to(at::kDouble), grid);
    mixer.owner().to(at::kFloat);
    for (const Kernels kernels : {Kernels::fused, Kernels::reference})
      EXPECT_LT(relative_l2(mixer.mix(half, grid, kernels), expected), 1e-2) << name;
  }
}

TEST(PrecisionTest, AttentionCase40ExponentsBeyondTheTypes) {
  const c10::InferenceMode inference;
  const TokenGrid grid{1, 3, 4};
  const HeadShape shape{1, 4};
  for (const char* const name : {"exp", "hedgehog", "performer", "softmax", "efficient", "aft"}) {
    const MixerUnderTest mixer(spec_of(name), grid, shape);
    mixer.set_identity_maps();
    for (const auto& [type, exponent] :
         {std::pair{at::kHalf, 12.0}, {at::kBFloat16, 90.0}, {at::kFloat, 90.0}}) {
      at::manual_seed(3);
      const Tokens tokens = random_tokens(1, grid.num_tokens(), shape, at::kDouble);
      const auto largest = [&](const at::Tensor& x) {
        return at::Tensor(exponent * x / x.abs().max());
      };
      const Tokens stored = Tokens{largest(tokens.q), largest(tokens.k), tokens.v}.to(type);
      for (const Kernels kernels : {Kernels::fused, Kernels::reference}) {
        const at::Tensor y = mixer.mix(stored, grid, kernels);
        EXPECT_TRUE(at::isfinite(y).all().item<bool>()) << name << ", " << at::toString(type);
      }
    }
  }
}

/// Reductions over tokens have a fixed split.
TEST(PrecisionTest, NeitherThreadsNorTheBatchChangeAResult) {
  const c10::InferenceMode inference;
  at::manual_seed(4);
  const TokenGrid grid{1, 30, 40};
  const Tokens tokens = random_tokens(2, grid.num_tokens(), {3, 16});
  for (const char* const name : {"hydra", "elu", "hedgehog", "softmax", "mla"}) {
    const MixerUnderTest mixer(spec_of(name), grid, {3, 16});
    at::set_num_threads(1);
    const at::Tensor one_thread = mixer.mix(tokens, grid);
    at::set_num_threads(2);
    const at::Tensor two_threads = mixer.mix(tokens, grid);
    const at::Tensor alone = mixer.mix(tokens.images(1, 1), grid);
    at::set_num_threads(1);
    EXPECT_LE(relative_error(two_threads, one_thread), 1e-6) << name;
    EXPECT_LE(relative_error(alone, one_thread.narrow(0, 1, 1)), 1e-6) << name;
  }
}

// ---- training with bfloat16 tokens and float32 weights: learned maps with bounded features then multiply in
// bfloat16. Values and gradients against autograd of the naive twin in double.

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

}  // namespace precision_test
}  // namespace hydrascope::testing
