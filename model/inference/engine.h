// The interface of everything that runs a model: a batch in, its logits out. The CPU's plan
// (inference_plan.h), the GPU's plan (cuda_plan.h) and the modules (modules_engine.h) are engines. A
// Classifier owns an engine, and code that feeds pictures does not know which. Engines compute a batch
// by `run`, in the caller's thread. The GPU's plan alone overlaps batches, and `start` asks for it.
#pragma once

#include "model/config/config.h"
#include "model/inference/cpu/stage_times.h"
#include "model/inference/image_batch.h"
#include "model/inference/inference_options.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {

/// Tokens that keep a GPU busy.
inline constexpr std::int64_t kBusyGpuTokens = 65536;

struct EngineLimits {
  int most_under_way = 1;    ///< batches that are started and wait for `get`
  bool takes_bytes = false;  ///< as images, which spares the caller their normalisation
  /// Tokens of a batch that keep the processor busy; more only add latency and memory.
  std::int64_t enough_tokens = 1600;
};

struct EngineDescription {
  /// "fused", "fused+modules" (some mechanisms have no kernels), "modules" or "reference"; on a GPU
  /// followed by LibTorch's backend of softmax layers, once it is chosen: "fused+softmax:cudnn".
  std::string kernels;
  /// On a GPU: a line for each matrix product with its algorithm, so that runs can be compared.
  std::vector<std::string> products = {};
};

struct EngineOutputs {
  at::Tensor logits;  ///< float32 (B, num_classes) on the CPU
  /// The tokens that entered the blocks of InferenceOptions::trace_layers, float32 (B, layers, N,
  /// D), on any device; undefined if none are traced.
  at::Tensor tokens;
};

/// A batch under way; the engine must outlive it. Dropping it waits and discards the outputs.
class PendingBatch {
 public:
  using Wait = std::function<EngineOutputs()>;
  explicit PendingBatch(Wait wait) : wait_(std::move(wait)) {}
  PendingBatch(PendingBatch&&) noexcept = default;
  PendingBatch& operator=(PendingBatch&&) noexcept = default;
  PendingBatch(const PendingBatch&) = delete;
  PendingBatch& operator=(const PendingBatch&) = delete;
  ~PendingBatch() = default;

  /// Waits for the outputs. Called once; afterwards the batch is no longer under way.
  EngineOutputs get() { return std::exchange(wait_, nullptr)(); }

 private:
  Wait wait_;
};

class Engine {
 public:
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  [[nodiscard]] const VitConfig& config() const noexcept { return config_; }
  [[nodiscard]] const InferenceOptions& options() const noexcept { return options_; }
  /// Tokens of one image of that size, prefix tokens included.
  [[nodiscard]] std::int64_t num_tokens(std::int64_t height, std::int64_t width) const {
    return config_.token_grid_of_pixels(height, width).num_tokens();
  }

  /// Starts a batch. Throws Error(out_of_memory) when the device says so; a batch whose `start`
  /// throws is not under way. LibTorch's errors become Error, here and in `get`.
  PendingBatch start(const ImageBatch& batch);
  /// Starts a batch and waits for it.
  EngineOutputs compute(const ImageBatch& batch) { return start(batch).get(); }
  /// images: float32 (B, C, H, W) on the CPU or the engine's device, normalised, H and W multiples
  /// of patch_size.
  EngineOutputs compute(const at::Tensor& images);
  at::Tensor logits(const at::Tensor& images) { return compute(images).logits; }

  [[nodiscard]] virtual EngineLimits limits() const noexcept { return {}; }
  [[nodiscard]] virtual EngineDescription describe() const { return {}; }
  /// Adds the seconds of all threads by stage to `times` from now on; null ends the counting.
  /// Returns whether the engine counts them.
  virtual bool collect_stage_times(StageTimes* /*times*/) noexcept { return false; }

 protected:
  /// An engine of a model of that configuration.
  explicit Engine(VitConfig config, InferenceOptions options = {})
      : config_(std::move(config)), options_(std::move(options)) {}

 private:
  /// The outputs of a batch, by the options' precision and determinism, with autocast off.
  virtual EngineOutputs run(const ImageBatch& batch) = 0;
  /// Begins a batch whose outputs the result waits for; by default the outputs of `run`, at once. An
  /// engine with several batches under way overrides it, and frees a batch's memory when the last
  /// copy of the result is destroyed.
  virtual PendingBatch::Wait begin(const ImageBatch& batch) {
    return [outputs = run(batch)] { return outputs; };
  }

  VitConfig config_;
  InferenceOptions options_;
};

}  // namespace hydrascope::model::inference
