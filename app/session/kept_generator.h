// LibTorch's generator of random numbers as others left it.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>

#include <mutex>

namespace hydrascope::app {

/// Seeding for what a checkpoint does not hold changes LibTorch's generator, which belongs to all of
/// the process.
class KeptGenerator {
 public:
  KeptGenerator() : generator_(at::detail::getDefaultCPUGenerator()), state_(state()) {}
  KeptGenerator(const KeptGenerator&) = delete;
  KeptGenerator& operator=(const KeptGenerator&) = delete;
  ~KeptGenerator() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }

 private:
  at::Tensor state() {
    const std::lock_guard lock(generator_.mutex());
    return generator_.get_state();
  }
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace hydrascope::app
