// How many threads LibTorch takes for what is computed once per picture, layer by layer.
#pragma once

#include "model/inference/one_torch_thread.h"

#include <cstdint>

namespace hydrascope::app {

/// Explaining one layer's tokens takes little time: threads that wait for each other's small
/// products keep the processors from those that draw and decode, and from other programs.
class ExplanationThreads : model::inference::OneTorchThread {
 public:
  explicit ExplanationThreads(std::int64_t tokens_of_all_layers)
      : OneTorchThread(tokens_of_all_layers < kManyTokens) {}

 private:
  static constexpr std::int64_t kManyTokens = 20'000;
};

}  // namespace hydrascope::app
