// Common to tests of softmax over some of the tokens: tokens, names, and the identities that hold
// whatever decides what is seen.
#pragma once

#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/tensor_match.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cctype>
#include <string>
#include <vector>

namespace hydrascope::testing::patterns {

inline const HeadShape kShape{2, 4};
inline const model::TokenGrid kTraining{2, 4, 3};
inline const std::vector<model::Kernels> kBoth{model::Kernels::fused, model::Kernels::reference};

inline Tokens tokens_of(std::uint64_t seed, const model::TokenGrid& grid) {
  at::manual_seed(seed);
  return random_tokens(2, grid.num_tokens(), kShape, at::kDouble);
}

inline std::string test_name(const ::testing::TestParamInfo<model::AttentionSpec>& parameter) {
  std::string name = describe(parameter.param);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

/// Whoever is seen has a weight.
inline at::Tensor seen(const at::Tensor& map) { return map.ne(0); }

/// y = (1 - m) y_S + m y_out, where m is softmax's weight of what is not seen; what has a weight above
/// `least` is.
inline void expect_average_of_seen_and_unseen(const MixerUnderTest& mixer, const Tokens& tokens,
                                              const model::TokenGrid& grid, double least = 0) {
  const MixerUnderTest softmax = plain_mixer(spec_of("softmax"), kTraining, kShape);
  const at::Tensor outside =
      softmax.map(tokens, grid).masked_fill(mixer.map(tokens, grid).gt(least), 0);
  const at::Tensor m = outside.sum(-1, true);
  for (const model::Kernels kernels : kBoth) {
    const at::Tensor inside =
        model::split_heads(mixer.mix(tokens, grid, kernels), kShape.num_heads);
    EXPECT_TRUE(all_near(model::merge_heads((1 - m) * inside + outside.matmul(tokens.v)),
                         softmax.mix(tokens, grid), 1e-12));
  }
  EXPECT_GT(m.max().item<double>(), 0.1);
}

/// Values of every width are averaged by the map, also the one column of rollouts.
inline void expect_the_map(const MixerUnderTest& mixer,
                           const std::vector<model::TokenGrid>& grids) {
  for (const model::TokenGrid& grid : grids) {
    SCOPED_TRACE(std::to_string(grid.rows) + " x " + std::to_string(grid.columns));
    Tokens tokens = tokens_of(5, grid);
    const at::Tensor map = mixer.map(tokens, grid);
    for (const std::int64_t width : {std::int64_t{1}, kShape.head_dim, std::int64_t{7}}) {
      tokens.v = at::randn({2, 2, grid.num_tokens(), width}, at::kDouble);
      for (const model::Kernels kernels : kBoth) {
        EXPECT_TRUE(all_near(mixer.mix(tokens, grid, kernels),
                             model::merge_heads(map.matmul(tokens.v)), 1e-12));
      }
    }
  }
}

/// Map, output and gradients of q, k and v.
inline void expect_softmax(const MixerUnderTest& mixer, const model::TokenGrid& grid) {
  const MixerUnderTest softmax = plain_mixer(spec_of("softmax"), grid, kShape);
  const Tokens tokens = tokens_of(7, grid).leaves();
  const at::Tensor weights = at::randn({2, grid.num_tokens(), 8}, at::kDouble);
  const auto gradients = [&](const MixerUnderTest& of, model::Kernels kernels) {
    return torch::autograd::grad({(of.mix(tokens, grid, kernels) * weights).sum()},
                                 {tokens.q, tokens.k, tokens.v});
  };
  EXPECT_TRUE(all_near(mixer.map(tokens, grid), softmax.map(tokens, grid), 1e-12));
  const auto expected = gradients(softmax, model::Kernels::fused);
  for (const model::Kernels kernels : kBoth) {
    EXPECT_TRUE(
        all_near(mixer.mix(tokens, grid, kernels), softmax.mix(tokens, grid, kernels), 1e-12));
    const auto found = gradients(mixer, kernels);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(all_near(found[i], expected[i], 1e-12)) << i;
  }
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(all_near(mixer.mix(tokens, grid), softmax.mix(tokens, grid), 1e-12));
}

}  // namespace hydrascope::testing::patterns
