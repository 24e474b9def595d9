// Launches as CUDA graphs.
#pragma once

#include "kernels/device/graph.h"
#include "kernels/device/stream.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace hydrascope::model::inference {

/// Runs the launches between two calls of LibTorch, a stretch. The same stretch always launches the
/// same: it runs once as it is, which loads the kernels; then it is captured; then repeated. With
/// CUDA_LAUNCH_BLOCKING=1 nothing is captured, so that the faulty kernel itself reports a fault.
class LaunchRecorder {
 public:
  explicit LaunchRecorder(kernels::device::Stream stream) : stream_(stream) {}

  void run(std::size_t stretch, const std::function<void()>& launches);

 private:
  struct Recorded {
    bool warm = false;
    std::unique_ptr<kernels::device::Graph> graph;
  };

  kernels::device::Stream stream_;
  std::vector<Recorded> graphs_;
};

}  // namespace hydrascope::model::inference
