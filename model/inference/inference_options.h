// A caller's choices of how a model runs. One struct for all engines, handed down as it is.
#pragma once

#include "model/device.h"
#include "model/tensor_source.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::model::inference {

struct InferenceOptions {
  c10::Device device{c10::kCPU};
  Precision precision;
  /// `fused` refuses a layer whose mechanism has no kernels: Error(invalid_argument).
  Kernels kernels = Kernels::automatic;
  /// The same bits in every run. On the CPU the same tiles whatever the batch and the number of
  /// threads; on a GPU the same algorithms instead of the fastest ones of this run.
  bool deterministic = false;
  /// For int8: images (B, C, H, W), normalised, that show how large the channels get; may be
  /// undefined.
  at::Tensor calibration;
  std::string calibration_source;  ///< what they are, for records
  /// Blocks whose incoming tokens `take_traced_tokens` gives, ascending.
  std::vector<std::int64_t> trace_layers;
  int threads = 1;  ///< of the plan on the CPU
};

/// The model that an engine is made of.
struct EngineSource {
  /// A model that is filled; it stays as it is.
  EngineSource(const VisionTransformer& filled);
  /// `modules`, made `for_loading` on the CPU, get from `source` what they hold besides the blocks'
  /// linear layers.
  EngineSource(VisionTransformer modules, TensorSource source);

  VisionTransformer model;  ///< for an engine to keep: embeddings and mixers without kernels
  TensorSource weights;     ///< where an engine reads the blocks' linear layers
};

}  // namespace hydrascope::model::inference
