// The memory-efficient form over several chunks of tokens: features wide enough that a chunk is 64
// tokens.
#include "tests/model/attention/mixer_under_test.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

namespace hydrascope::testing {
namespace chunk_test {

using model::AttentionSpec;
using model::TokenGrid;

constexpr TokenGrid kGrid{2, 11, 14};  // 156 tokens: two chunks and a part
constexpr HeadShape kHeads{2, 32};

std::vector<AttentionSpec> wide_maps() {
  return {{"taylor2", {}},
          {"hedgehog", {{"width", "1024"}}},
          {"hedgehog", {{"width", "1024"}, {"share_qk", "on"}, {"variant", "softmax1"}}},
          {"t2r", {{"width", "1024"}, {"share_qk", "on"}}},
          {"performer", {{"features", "1024"}}},
          {"rfa", {{"features", "1024"}}}};
}

TEST(ChunkTest, OutputsGradientsAndRowsAreThoseOfTheWholeSequence) {
  for (const AttentionSpec& spec : wide_maps()) {
    SCOPED_TRACE(describe(spec));
    at::manual_seed(5);
    const MixerUnderTest mixer(spec, kGrid, kHeads);
    mixer.make_exact();
    const Tokens tokens = random_tokens(1, kGrid.num_tokens(), kHeads, at::kDouble).leaves();
    std::vector<at::Tensor> inputs{tokens.q, tokens.k, tokens.v};
    for (const at::Tensor& parameter : mixer.owner().parameters()) inputs.push_back(parameter);
    const at::Tensor direction = at::randn({1, kGrid.num_tokens(), 64}, at::kDouble);
    const auto gradients = [&](model::Kernels kernels) {
      return torch::autograd::grad({(mixer.mix(tokens, kGrid, kernels) * direction).sum()}, inputs);
    };
    EXPECT_LT(relative_error(mixer.mix(tokens, kGrid), mixer.twin(tokens, kGrid)), 1e-10);
    const auto fused = gradients(model::Kernels::fused);
    const auto reference = gradients(model::Kernels::reference);
    ASSERT_EQ(fused.size(), reference.size());
    for (std::size_t i = 0; i < fused.size(); ++i)
      EXPECT_LT(relative_error(fused[i], reference[i]), 1e-9) << "input " << i;
    const at::Tensor rows = mixer.map(tokens, kGrid);
    const at::Tensor y = model::merge_heads(rows.matmul(tokens.v));
    EXPECT_LT(relative_error(y, mixer.mix(tokens, kGrid)), 1e-10);
  }
}

TEST(ChunkTest, SecondDerivativesAreRefusedNotWrong) {
  using torch::autograd::grad;
  for (const char* name : {"hydra", "elu", "taylor2"}) {
    const MixerUnderTest mixer({name, {}}, kGrid, kHeads);
    const Tokens tokens = random_tokens(1, kGrid.num_tokens(), kHeads).leaves();
    const auto second_derivative = [&] {
      const auto first = grad({mixer.mix(tokens, kGrid).sum()}, {tokens.q}, {},
                              /*retain_graph=*/true, /*create_graph=*/true);
      return grad({first[0].sum()}, {tokens.q});
    };
    EXPECT_ANY_THROW(second_derivative()) << name;
  }
}

}  // namespace chunk_test
}  // namespace hydrascope::testing
