// A CUDA graph with an owner: launches that are captured once and then run as one. For host code of
// builds with CUDA.
#pragma once

#include "kernels/device/launch.h"
#include "kernels/device/stream.h"

#include <cuda_runtime_api.h>

#include <functional>

namespace hydrascope::kernels::device {

class Graph {
 public:
  /// Captures what `launches` puts on `stream`, without running it. An exception of `launches` ends the
  /// capture.
  Graph(Stream stream, const std::function<void()>& launches) : stream_(stream) {
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    try {
      launches();
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      cudaGetLastError();  // else LibTorch reports it for its own next launch
      throw;
    }
    check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(status, "cudaGraphInstantiate");
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { cudaGraphExecDestroy(executable_); }

  void launch() const { check_cuda(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch"); }

 private:
  Stream stream_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace hydrascope::kernels::device
