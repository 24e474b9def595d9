// LibTorch's loops of this thread on one processor for a while. OpenMP's threads go on spinning
// after their work, on the processors that the plan's own threads need next. On a busy machine
// every loop waits for the slowest of them: a loop over few elements is sooner done alone.
#pragma once

#include <cstdint>

namespace hydrascope::model::inference {

/// Sets the number of threads for the calling thread's loops. at::set_num_threads would set it for
/// all threads and begin a second pool (for mobile operators) anew each time, whose threads spin
/// for tens of milliseconds before they sleep.
void set_openmp_threads(int threads);

/// Whether LibTorch's threads cost more than they save for so many elements.
constexpr bool is_little_work(std::int64_t elements) { return elements < std::int64_t{1} << 20; }

class OneTorchThread {
 public:
  /// Does nothing unless `wanted`.
  explicit OneTorchThread(bool wanted = true);
  OneTorchThread(const OneTorchThread&) = delete;
  OneTorchThread& operator=(const OneTorchThread&) = delete;
  ~OneTorchThread();

 private:
  int threads_ = 1;  ///< this thread's number before
};

}  // namespace hydrascope::model::inference
