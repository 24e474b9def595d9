// How many threads LibTorch takes for what is computed once per picture, layer by layer.
#pragma once

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <cstdint>

namespace hydrascope::app {

/// Explaining one layer's tokens takes little time: threads that wait for each other's small
/// products keep the processors from those that draw and decode, and from other programs.
class ExplanationThreads {
 public:
  explicit ExplanationThreads(std::int64_t tokens_of_all_layers) : before_(at::get_num_threads()) {
    constexpr std::int64_t kManyTokens = 20'000;
    if (tokens_of_all_layers < kManyTokens) at::set_num_threads(1);
  }
  ExplanationThreads(const ExplanationThreads&) = delete;
  ExplanationThreads& operator=(const ExplanationThreads&) = delete;
  ~ExplanationThreads() { at::set_num_threads(before_); }

 private:
  int before_;
};

}  // namespace hydrascope::app
