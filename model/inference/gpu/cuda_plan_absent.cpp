// In place of cuda_plan.cpp in builds without CUDA.
#include "kernels/error.h"
#include "model/inference/gpu/cuda_plan.h"

namespace hydrascope::model::inference {

std::unique_ptr<Engine> make_cuda_plan(const WeightTable& /*weights*/,
                                       const InferenceOptions& options) {
  throw Error(ErrorCode::failed, "this build has no CUDA", options.device.str());
}

}  // namespace hydrascope::model::inference
