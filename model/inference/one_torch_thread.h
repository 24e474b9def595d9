// LibTorch on one thread for a while. OpenMP's threads go on spinning after their work, on the
// processors that the plan's own threads need next, and where the machine is busy every loop waits
// for the slowest of them: what has few elements is sooner done alone.
#pragma once

#include <ATen/Parallel.h>

namespace hydrascope::model::inference {

class OneTorchThread {
 public:
  /// Does nothing unless `wanted`.
  explicit OneTorchThread(bool wanted = true) : threads_(wanted ? at::get_num_threads() : 0) {
    if (threads_ > 1) at::set_num_threads(1);
  }
  OneTorchThread(const OneTorchThread&) = delete;
  OneTorchThread& operator=(const OneTorchThread&) = delete;
  ~OneTorchThread() {
    if (threads_ > 1) at::set_num_threads(threads_);
  }

 private:
  int threads_;
};

}  // namespace hydrascope::model::inference
