// The promises of every entry of the registry, tried on all of its options: the right numbers, in
// every precision and shape, and finite ones.
#include "kernels/error.h"
#include "model/device.h"
#include "tests/error_matchers.h"
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/attention/registry_cases.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrascope::testing {
namespace {

using model::AttentionSpec;
using model::Kernels;
using model::TokenGrid;

const std::vector<Kernels> kBothKernels{Kernels::fused, Kernels::reference};

std::vector<at::Device> devices() {
  std::vector<at::Device> list{at::Device(at::kCPU)};
  if (model::cuda_unavailable_reason().empty()) list.push_back(model::resolve_device("cuda"));
  return list;
}

/// Class token, class and distillation token, other sizes, an oblong picture, one token, two.
const std::vector<TokenGrid> kAllGrids{{1, 14, 14}, {2, 14, 14}, {1, 24, 24}, {1, 9, 64},
                                       {0, 1, 1},   {1, 0, 0},   {1, 1, 1}};
/// For all but the default options.
const std::vector<TokenGrid> kSomeGrids{{2, 14, 14}, {1, 3, 17}, {0, 1, 1}};

/// Mechanisms tied to one number of tokens are tried at it; all others away from it, too.
TokenGrid training_grid_for(const model::MechanismEntry& entry, const TokenGrid& grid) {
  if (entry.fixed_num_tokens) return grid;
  return {grid.num_prefix, 14, 14};
}

class ConformanceTest : public RegistryCase {};

void expect_twins_numbers(const MixerUnderTest& mixer, const Tokens& tokens, const TokenGrid& grid,
                          at::Device device) {
  const at::Tensor expected = mixer.twin(tokens, grid);
  for (const Kernels kernels : kBothKernels) {
    for (const std::int64_t batch : {1, 2}) {
      const at::Tensor y = mixer.mix(tokens.images(0, batch).to(device), grid, kernels);
      ASSERT_EQ(y.sizes(), (at::IntArrayRef{batch, grid.num_tokens(), expected.size(2)}));
      EXPECT_EQ(y.scalar_type(), tokens.v.scalar_type());
      const at::Tensor twin = expected.narrow(0, 0, batch);
      const std::string where = std::string(kernels == Kernels::fused ? "fused" : "reference") +
                                ", batch " + std::to_string(batch) + ", " +
                                std::to_string(grid.num_tokens()) + " tokens";
      if (y.scalar_type() == at::kBFloat16) {
        // The twin got the same rounded inputs and weights; what is left is the rounding of the
        // output to 8 bits, 2e-3, and of sums in between.
        EXPECT_LT(relative_l2(y, twin), 2e-2) << where;
      } else {
        EXPECT_LT(relative_error(y, twin), 1e-4) << where;
      }
    }
  }
}

TEST_P(ConformanceTest, AgreesWithItsTwin) {
  const c10::InferenceMode inference;
  for (const at::Device device : devices()) {
    for (const AttentionSpec& spec : variants(entry())) {
      SCOPED_TRACE(describe(spec) + " on " + device.str());
      for (const TokenGrid& grid : spec.options.empty() ? kAllGrids : kSomeGrids) {
        at::manual_seed(1);
        const MixerUnderTest mixer(spec, training_grid_for(entry(), grid));
        const Tokens tokens = random_tokens(2, grid.num_tokens(), {});
        mixer.owner().to(device);
        expect_twins_numbers(mixer, tokens, grid, device);
        mixer.owner().to(at::kBFloat16);
        expect_twins_numbers(mixer, tokens.to(at::kBFloat16), grid, device);
      }
    }
  }
}

TEST_P(ConformanceTest, AnotherSizeIsRefusedOrAgreesWithTheTwin) {
  const c10::InferenceMode inference;
  const TokenGrid training{1, 4, 6};
  for (const AttentionSpec& spec : variants(entry())) {
    for (const TokenGrid& grid : {TokenGrid{1, 6, 4}, TokenGrid{1, 7, 9}, TokenGrid{1, 2, 3}}) {
      SCOPED_TRACE(describe(spec) + " at " + std::to_string(grid.num_tokens()));
      at::manual_seed(2);
      const MixerUnderTest mixer(spec, training);
      const Tokens tokens = random_tokens(2, grid.num_tokens(), {}, at::kDouble);
      mixer.make_exact();
      for (const Kernels kernels : kBothKernels) {
        try {
          const at::Tensor y = mixer.mix(tokens, grid, kernels);
          EXPECT_LT(relative_error(y, mixer.twin(tokens, grid)), 1e-10);
        } catch (const Error& error) {
          EXPECT_TRUE(entry().fixed_num_tokens) << error.what();
          EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        }
      }
    }
  }
}

TEST(ConformanceMessagesTest, AProjectionOfTokensNamesBothNumbersOfThem) {
  const MixerUnderTest mixer(spec_of("linformer"), {1, 4, 6});
  const TokenGrid grid{1, 5, 6};
  const Tokens tokens = random_tokens(2, grid.num_tokens(), {});
  for (const Kernels kernels : kBothKernels)
    EXPECT_ERROR(mixer.mix(tokens, grid, kernels), invalid_argument, "25", "31");
  EXPECT_ERROR(mixer.map(tokens, grid), invalid_argument, "25", "31");
}

/// Also when the weights stay in float32, as in training with mixed precision.
TEST_P(ConformanceTest, OutputHasTheTypeOfTheTokens) {
  const c10::InferenceMode inference;
  const TokenGrid grid{1, 3, 4};
  for (const AttentionSpec& spec : variants(entry())) {
    const MixerUnderTest mixer(spec, grid);
    const Tokens tokens = random_tokens(1, grid.num_tokens(), {});
    for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
      for (const Kernels kernels : kBothKernels) {
        EXPECT_EQ(mixer.mix(tokens.to(type), grid, kernels).scalar_type(), type) << describe(spec);
      }
    }
  }
}

TEST_P(ConformanceTest, IsFiniteOnHostileInputs) {
  const c10::InferenceMode inference;
  const TokenGrid grid{1, 7, 8};
  const HeadShape shape;
  const std::vector<std::int64_t> sizes{1, grid.num_tokens(), 3, shape.num_heads, shape.head_dim};
  at::Tensor one_hot = at::zeros(sizes);
  one_hot.select(4, 2).select(1, 5).fill_(1);
  at::manual_seed(3);
  const std::vector<std::pair<std::string, at::Tensor>> inputs{
      {"zeros", at::zeros(sizes)},
      {"constants", at::full(sizes, 3)},
      {"negative constants", at::full(sizes, -3)},
      {"one hot", one_hot},
      {"large", 1e4 * at::randn(sizes)},
      {"tiny", 1e-20 * at::randn(sizes)}};
  for (const AttentionSpec& spec : variants(entry())) {
    const MixerUnderTest mixer(spec, grid);
    for (const auto& [name, qkv] : inputs) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        for (const Kernels kernels : kBothKernels) {
          const at::Tensor y = mixer.mix(split_qkv(qkv.to(type)), grid, kernels);
          EXPECT_TRUE(at::isfinite(y).all().item<bool>())
              << describe(spec) << ", " << name << ", " << at::toString(type)
              << (kernels == Kernels::fused ? ", fused" : ", reference");
        }
      }
    }
  }
}

/// NaN in, NaN out: never silently replaced. LibTorch's fused softmax breaks that rule on the
/// CPU where a query and all of fewer than 16 keys meet in NaN, as Linformer's nine may, and those
/// of a small window.
TEST_P(ConformanceTest, NansPropagate) {
  const c10::InferenceMode inference;
  const TokenGrid grid{1, 7, 8};
  for (const AttentionSpec& spec : variants(entry())) {
    const bool few_keys = spec.options.contains("length") || entry().sparse;
    at::manual_seed(5);
    const MixerUnderTest mixer(spec, grid);
    const Tokens tokens = random_tokens(1, grid.num_tokens(), {});
    for (const at::Tensor& part : {tokens.q, tokens.k, tokens.v}) {
      if (few_keys && !part.is_same(tokens.v)) continue;
      const at::Tensor cell = part.select(2, 4);
      const at::Tensor before = cell.clone();
      cell.fill_(std::numeric_limits<float>::quiet_NaN());
      for (const Kernels kernels : kBothKernels) {
        const at::Tensor y = mixer.mix(tokens, grid, kernels);
        EXPECT_TRUE(at::isnan(y.select(1, 4)).any().item<bool>()) << describe(spec);
      }
      cell.copy_(before);
    }
  }
}

TEST_P(ConformanceTest, ImagesOfABatchDoNotMix) {
  const c10::InferenceMode inference;
  const TokenGrid grid{1, 9, 13};
  for (const AttentionSpec& spec : variants(entry())) {
    SCOPED_TRACE(describe(spec));
    at::manual_seed(4);
    const MixerUnderTest mixer(spec, grid);
    const Tokens tokens = random_tokens(2, grid.num_tokens(), {});
    for (const Kernels kernels : kBothKernels) {
      const at::Tensor both = mixer.mix(tokens, grid, kernels);
      for (const std::int64_t image : {0, 1}) {
        const at::Tensor single = mixer.mix(tokens.images(image, 1), grid, kernels);
        EXPECT_LE(relative_l2(both.narrow(0, image, 1), single), 1e-6);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, ConformanceTest, all_entries(), entry_name);

}  // namespace
}  // namespace hydrascope::testing
