// A caller's choices of how a model runs. One struct for all engines, handed down as it is.
#pragma once

#include "model/config/config.h"
#include "model/device.h"
#include "model/registry/memories.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::model::inference {

/// The use of a model's exits: none, pictures leave by the configuration's rule, or all exits are
/// watched while the whole model answers.
enum class Exits { off, leave, watch };

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
  std::string calibration_source;  ///< the images' source, for records
  /// Blocks whose incoming tokens are among the outputs, ascending.
  std::vector<std::int64_t> trace_layers;
  Exits exits = Exits::off;  ///< of a model that has some, without traced layers
  /// The memories of the layers, one each, over the frames of a video; empty: every image is a picture
  /// of its own. Batches then have one image, and no exit is taken.
  std::vector<MemorySpec> memory;
  int threads = 1;  ///< the CPU plan's
};

}  // namespace hydrascope::model::inference
