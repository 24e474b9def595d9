// A DevicePlan on a CUDA GPU: its own stream, the launches captured once per shape as CUDA graphs,
// and two batches on their way at a time, so that one is copied from pinned memory while the other
// is computed (`Engine::overlap`). Plans of a few image sizes are kept; another size, or many more or fewer images,
// waits for the batches on their way and is planned. c10::OutOfMemoryError or Error(out_of_memory)
// leaves nothing started.
#pragma once

#include "model/inference/engine.h"
#include "model/weight_table.h"

#include <cstdint>
#include <memory>

namespace hydrascope::model::inference {

/// Tokens that keep a GPU busy.
inline constexpr std::int64_t kBusyGpuTokens = 65536;

/// Errors as InferencePlan's; Error(failed) in a build without CUDA.
std::unique_ptr<Engine> make_cuda_plan(const WeightTable& weights, const InferenceOptions& options);

}  // namespace hydrascope::model::inference
