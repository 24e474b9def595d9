#include "model/inference/classifier.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace hydrascope::testing {
namespace {

using model::Classifier;
using model::VitConfig;

/// LibTorch with so many threads while it lives.
class TorchThreads {
 public:
  explicit TorchThreads(int threads) { at::set_num_threads(threads); }
  TorchThreads(const TorchThreads&) = delete;
  TorchThreads& operator=(const TorchThreads&) = delete;
  ~TorchThreads() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

// Blocks of DeiT-Tiny are small: they are loaded on one thread.
TEST(ClassifierTest, ItsPlanHasAllThreadsOfLibTorch) {
  const TorchThreads three(3);
  const auto weights =
      checkpoint::Checkpoint::open(std::filesystem::path(HYDRASCOPE_SOURCE_DIR) /
                                   "assets/models/deit_tiny_patch16_224.softmax.safetensors");
  const VitConfig config = weights.deduce_config();
  EXPECT_EQ(Classifier(config, weights, {}).options().threads, 3);
  EXPECT_EQ(Classifier(config, {}).options().threads, 3);
  EXPECT_EQ(at::get_num_threads(), 3);
}

}  // namespace
}  // namespace hydrascope::testing
