// Memory at 4K and full-HD numbers of tokens: what is linear on paper is linear in the resident
// set.
#include "tests/model/attention/mixer_under_test.h"
#include "tests/model/attention/registry_cases.h"
#include "tests/model/small_vit.h"

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <malloc.h>
#include <memory>
#include <stdexcept>
#include <string>

namespace hydrascope::testing {
namespace memory_test {

using model::Kernels;
using model::TokenGrid;

/// A line such as "VmHWM:   123456 kB" of /proc/self/status, in bytes.
double status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return 1024 * std::stod(line.substr(key.size() + 1));
  }
  throw std::runtime_error("no " + key + " in /proc/self/status");
}

/// How far the resident set rises above where it stands now.
class PeakMemory {
 public:
  PeakMemory() {
    ::malloc_trim(0);  // what the allocator keeps would be reused unseen
    std::ofstream("/proc/self/clear_refs") << "5";  // VmHWM starts again (Linux 4.0)
    start_ = status_bytes("VmRSS");
  }
  [[nodiscard]] double bytes() const { return status_bytes("VmHWM") - start_; }

 private:
  double start_;
};

/// Sanitizers keep what is freed, and some kernels let nobody reset the mark.
bool meter_works() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#endif
  {
    const at::Tensor large = at::ones({64 << 20});
    if (status_bytes("VmRSS") < 4.0 * (64 << 20)) return false;
  }
  return PeakMemory().bytes() < 64 << 20;
}

#define SKIP_WITHOUT_METER() \
  if (!meter_works()) GTEST_SKIP() << "peak memory cannot be measured here"

const HeadShape kShape{3, 64};
constexpr double kMost = 1.5e9;

class MemoryTest : public RegistryCase {};

TEST_P(MemoryTest, Of4KImagesStaysLinear) {
  if (entry().quadratic) GTEST_SKIP() << "N x N by definition";
  SKIP_WITHOUT_METER();
  const c10::InferenceMode inference;
  const TokenGrid grid{1, 135, 240};  // 32401 tokens
  const TokenGrid trained = entry().fixed_num_tokens ? grid : TokenGrid{1, 14, 14};
  const MixerUnderTest mixer(spec_of(entry().name), trained, kShape);
  const Tokens tokens = split_qkv(at::randn({1, grid.num_tokens(), 3, 3, 64}));
  const PeakMemory peak;
  const at::Tensor y = mixer.mix(tokens, grid, Kernels::fused);
  EXPECT_LT(peak.bytes(), kMost);
  EXPECT_TRUE(at::isfinite(y).all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Registry, MemoryTest, all_entries(), entry_name);

TEST(MemoryMeterTest, SeesTheMapOfSoftmax) {
  SKIP_WITHOUT_METER();
  const c10::InferenceMode inference;
  const TokenGrid grid{1, 96, 120};  // 11521 tokens: 1.6 GB a map of three heads
  const MixerUnderTest mixer(spec_of("softmax"), grid, kShape);
  const Tokens tokens = split_qkv(at::randn({1, grid.num_tokens(), 3, 3, 64}));
  const PeakMemory peak;
  const at::Tensor y = mixer.mix(tokens, grid, Kernels::reference);
  EXPECT_GT(peak.bytes(), kMost);
}

class TrainingMemoryTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainingMemoryTest, OfFullHdImagesIsOfTheOrderOfTheTokens) {
  SKIP_WITHOUT_METER();
  const TokenGrid grid{1, 68, 120};  // 8161 tokens
  const MixerUnderTest mixer(spec_of(GetParam()), {1, 14, 14}, kShape);
  const Tokens tokens = split_qkv(at::randn({1, grid.num_tokens(), 3, 3, 64})).leaves();
  const PeakMemory peak;
  const at::Tensor y = mixer.mix(tokens, grid, Kernels::fused);
  const auto gradients =
      torch::autograd::grad({y}, {tokens.q, tokens.k, tokens.v}, {at::ones_like(y)});
  EXPECT_LT(peak.bytes(), 40.0 * 8161 * 192 * 4);
  EXPECT_TRUE(at::isfinite(gradients[1]).all().item<bool>());
}

/// Counts the bytes of LibTorch's tensors of this thread while it lives. Exact, where the resident set has
/// what the allocator keeps.
class LiveBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t change, std::size_t, std::size_t,
                         c10::Device) override {
    live_ += change;
    most_ = std::max(most_, live_);
  }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }
  [[nodiscard]] double most() const { return static_cast<double>(most_); }

 private:
  std::int64_t live_ = 0;
  std::int64_t most_ = 0;
};

/// The most bytes of one step through that many blocks.
double step_bytes(model::Residual residual, std::int64_t depth) {
  model::VitConfig config = small_vit({.edge = 512, .dim = 96, .depth = depth}, "hydra");
  config.residual = residual;
  at::manual_seed(1);
  model::VisionTransformer model(config);
  const at::Tensor images = at::randn({1, 3, 512, 512});
  const auto bytes = std::make_shared<LiveBytes>();
  const c10::DebugInfoGuard counts(c10::DebugInfoKind::PROFILER_STATE, bytes);
  model->forward(images).square().sum().backward();
  return bytes->most();
}

TEST(ReversibleMemoryTest, DoesNotGrowWithTheDepth) {
  using model::Residual;
  const double added = step_bytes(Residual::add, 10) - step_bytes(Residual::add, 2);
  const double reversible =
      step_bytes(Residual::reversible, 10) - step_bytes(Residual::reversible, 2);
  // A plain block keeps more than 8 tensors of the tokens, a reversible one the gradients of its 12 D^2 weights.
  const double tokens = 4097.0 * 96 * 4;
  const double weights = 13.0 * 96 * 96 * 4;
  EXPECT_GT(added, 8 * 8 * tokens);
  EXPECT_LT(reversible, 8 * weights);
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, TrainingMemoryTest,
                         ::testing::Values("hydra", "elu", "hedgehog", "window"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace memory_test
}  // namespace hydrascope::testing
