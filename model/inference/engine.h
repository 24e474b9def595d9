// The interface of everything that runs a model: a batch in, its logits out, in the caller's thread.
// The CPU's plan (inference_plan.h), the GPU's plan (cuda_plan.h) and the modules (modules_engine.h)
// are engines. A Classifier owns an engine, and code that feeds pictures does not know which. The
// GPU's plan alone overlaps batches (overlap.h).
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

class Overlap;
class PendingBatch;

struct EngineDescription {
  /// "fused", "fused+modules" (some mechanisms have no kernels), "modules" or "reference"; on a GPU
  /// followed by LibTorch's backend of softmax layers, once it is chosen: "fused+softmax:cudnn".
  std::string kernels;
  /// On a GPU: a line for each matrix product with its algorithm, so that runs can be compared.
  std::vector<std::string> products = {};
};

/// The exits' part of a batch, on the CPU.
struct ExitOutputs {
  /// With Exits::leave, int64 (B): the layer behind which a picture left, or the last one; else undefined.
  at::Tensor layers;
  // With Exits::watch, else undefined:
  at::Tensor scores;   ///< float32 (B, exits), by the configuration's rule
  at::Tensor classes;  ///< int64 (B, exits): the exits' answers
};

struct EngineOutputs {
  at::Tensor logits;  ///< float32 (B, num_classes) on the CPU
  /// The tokens that entered the blocks of InferenceOptions::trace_layers, float32 (B, layers, N,
  /// D), on any device; undefined if none are traced.
  at::Tensor tokens;
  at::Tensor features = {};  ///< float32 (B, D) on the CPU, of a FeatureEngine alone
  ExitOutputs exits = {};
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

  /// Throws Error(out_of_memory) when the device says so. LibTorch's errors become Error. With a memory
  /// Error(unsupported_format) for a frame of another size than the one before, which stays the last.
  EngineOutputs compute(const ImageBatch& batch);
  /// images: float32 (B, C, H, W) on the CPU or the engine's device, normalised, H and W multiples
  /// of patch_size.
  EngineOutputs compute(const at::Tensor& images);
  at::Tensor logits(const at::Tensor& images) { return compute(images).logits; }

  /// Tokens of a batch that keep the processor busy; more only add latency and memory.
  [[nodiscard]] virtual std::int64_t enough_tokens() const noexcept { return 1600; }
  /// Null if the engine computes one batch at a time.
  [[nodiscard]] virtual Overlap* overlap() noexcept { return nullptr; }
  [[nodiscard]] virtual EngineDescription describe() const { return {}; }
  /// Adds the seconds of all threads by stage to `times` from now on; null ends the counting.
  /// Returns whether the engine counts them.
  virtual bool collect_stage_times(StageTimes* /*times*/) noexcept { return false; }

 protected:
  /// An engine of a model of that configuration.
  explicit Engine(VitConfig config, InferenceOptions options = {})
      : config_(std::move(config)), options_(std::move(options)) {}

 private:
  friend PendingBatch start(Engine& engine, const ImageBatch& batch);

  /// Takes the batch as the next frame, or as the first of a video.
  void follow(const ImageBatch& batch);
  /// The outputs of a batch, by the options' precision and determinism, with autocast off.
  virtual EngineOutputs run(const ImageBatch& batch) = 0;
  /// Does `work` in that way. LibTorch's errors become Error about `what`.
  void guarded(const std::string& what, const std::function<void()>& work) const;

  VitConfig config_;
  InferenceOptions options_;
  std::int64_t frame_height_ = 0;  ///< of the video at hand, with a memory
  std::int64_t frame_width_ = 0;
};

}  // namespace hydrascope::model::inference
