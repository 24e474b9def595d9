// Launches as CUDA graphs.
#pragma once

#include "kernels/device/stream.h"

#include <cstddef>
#include <functional>
#include <vector>

struct CUgraphExec_st;

namespace hydrascope::model::inference {

/// Runs the launches between two calls of LibTorch, a stretch. The same stretch always launches the
/// same: it runs once as it is, which loads the kernels; then it is captured; then repeated. With
/// CUDA_LAUNCH_BLOCKING=1 nothing is captured, so that the faulty kernel itself reports a fault.
class LaunchRecorder {
 public:
  explicit LaunchRecorder(kernels::device::Stream stream) : stream_(stream) {}
  LaunchRecorder(const LaunchRecorder&) = delete;
  LaunchRecorder& operator=(const LaunchRecorder&) = delete;
  ~LaunchRecorder();

  void run(std::size_t stretch, const std::function<void()>& launches);

 private:
  struct Recorded {
    bool warm = false;
    CUgraphExec_st* graph = nullptr;
  };

  [[nodiscard]] CUgraphExec_st* capture(const std::function<void()>& launches) const;

  kernels::device::Stream stream_;
  std::vector<Recorded> graphs_;
};

}  // namespace hydrascope::model::inference
