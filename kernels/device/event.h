// A CUDA event with an owner: a point of one stream that another waits for, or a begin or end of a
// time. For host code of builds with CUDA.
#pragma once

#include "kernels/device/launch.h"
#include "kernels/device/stream.h"

#include <cuda_runtime_api.h>

#include <functional>

namespace hydrascope::kernels::device {

/// Made when it is first recorded, on the stream's device, which must be the current one.
class Event {
 public:
  enum class Timing { off, on };
  explicit Event(Timing timing = Timing::off) : timing_(timing) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }

  void record(Stream stream) {
    if (event_ == nullptr)
      check_cuda(cudaEventCreateWithFlags(
                     &event_, timing_ == Timing::on ? cudaEventDefault : cudaEventDisableTiming),
                 "cudaEventCreate");
    check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  /// `stream` goes on when the work recorded here is done.
  void hold_back(Stream stream) const {
    check_cuda(cudaStreamWaitEvent(stream, event_), "cudaStreamWaitEvent");
  }
  /// The host goes on then; `what` names the work in errors.
  void wait(const char* what) const { check_cuda(cudaEventSynchronize(event_), what); }
  /// Both events must have Timing::on, and the later one must have been waited for.
  [[nodiscard]] float milliseconds_since(const Event& begin) const {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  Timing timing_;
  cudaEvent_t event_ = nullptr;
};

/// The milliseconds that `stream` takes for `runs` times `work`, which puts work on it; waits for
/// its end. `what` names the work in errors.
inline float milliseconds_of(Stream stream, int runs, const char* what,
                             const std::function<void()>& work) {
  Event begin(Event::Timing::on);
  Event end(Event::Timing::on);
  begin.record(stream);
  for (int i = 0; i < runs; ++i) work();
  end.record(stream);
  end.wait(what);
  return end.milliseconds_since(begin);
}

}  // namespace hydrascope::kernels::device
