// What a caller may choose of how a model runs. One struct for all engines, handed down as it is.
#pragma once

#include "model/device.h"
#include "model/vision_transformer.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
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
  /// Share of the patch tokens that go on after block `keep_layer`, see TokenReduction; 1: all.
  double keep_tokens = 1;
  /// By default the first layer that can drop tokens, from a quarter of the depth on.
  std::optional<std::int64_t> keep_layer;
  /// For int8: images (B, C, H, W), normalised, that show how large the channels get; may be
  /// undefined.
  at::Tensor calibration;
  std::string calibration_source;  ///< what they are, for records
  /// Blocks whose incoming tokens `take_traced_tokens` gives, ascending; not with `keep_tokens`.
  std::vector<std::int64_t> trace_layers;
  int threads = 1;  ///< of the plan on the CPU
};

/// The model that an engine is made of: float32 parameters on the CPU, in evaluation mode.
struct EngineSource {
  /// A model that is filled stays as it is.
  EngineSource(VisionTransformer filled) : model(std::move(filled)) {}

  VisionTransformer model;
  /// Called once for each block before it is read, to load it, so that a model that is released
  /// never exists whole; empty: the model is filled.
  std::function<void(std::int64_t layer)> fill_block;
  /// Whether blocks may be filled in any order, several at a time: small ones then are.
  bool fills_in_any_order = false;
  /// Drop the modules' matrices while packing; the model is of no other use afterwards.
  bool release = false;
};

}  // namespace hydrascope::model::inference
