#include "model/inference/gpu/launch_recorder.h"

#include <cstdlib>
#include <string_view>

namespace hydrascope::model::inference {

void LaunchRecorder::run(std::size_t stretch, const std::function<void()>& launches) {
  if (stretch >= graphs_.size()) graphs_.resize(stretch + 1);
  Recorded& recorded = graphs_[stretch];
  const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (!recorded.warm || (blocking != nullptr && std::string_view(blocking) == "1")) {
    launches();
    recorded.warm = true;
    return;
  }
  if (!recorded.graph) recorded.graph = std::make_unique<kernels::device::Graph>(stream_, launches);
  recorded.graph->launch();
}

}  // namespace hydrascope::model::inference
