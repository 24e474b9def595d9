#include "model/inference/gpu/launch_recorder.h"

#include "kernels/device/launch.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string_view>

namespace hydrascope::model::inference {

using kernels::device::check_cuda;

LaunchRecorder::~LaunchRecorder() {
  for (const Recorded& each : graphs_)
    if (each.graph != nullptr) cudaGraphExecDestroy(each.graph);
}

void LaunchRecorder::run(std::size_t stretch, const std::function<void()>& launches) {
  if (stretch >= graphs_.size()) graphs_.resize(stretch + 1);
  Recorded& recorded = graphs_[stretch];
  const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (!recorded.warm || (blocking != nullptr && std::string_view(blocking) == "1")) {
    launches();
    recorded.warm = true;
    return;
  }
  if (recorded.graph == nullptr) recorded.graph = capture(launches);
  check_cuda(cudaGraphLaunch(recorded.graph, stream_), "cudaGraphLaunch");
}

cudaGraphExec_t LaunchRecorder::capture(const std::function<void()>& launches) const {
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  try {
    launches();
  } catch (...) {
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // else LibTorch reports it for its own next launch
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check_cuda(status, "cudaGraphInstantiate");
  return executable;
}

}  // namespace hydrascope::model::inference
