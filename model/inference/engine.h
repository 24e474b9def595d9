// The interface of everything that runs a model: a batch in, its logits out, in the caller's thread.
// The CPU's plan (inference_plan.h), the GPU's plan (cuda_plan.h) and the modules (modules_engine.h)
// are engines. A Classifier owns an engine, and code that feeds pictures does not know which. The
// GPU's plan alone overlaps batches (overlap.h).
#pragma once

#include "model/config/config.h"
#include "model/inference/cpu/stage_times.h"
#include "model/inference/inference_options.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {

class Overlap;
class PendingBatch;

/// Images of one size and kind.
struct ImageBatch {
  /// On the CPU: float32 (C, height, width), normalised; or uint8 (h, w, 3), at most as large as
  /// the model's input, to be normalised on the device: (value / 255 - mean) / std, and 0 around
  /// it.
  std::vector<at::Tensor> images;
  /// Instead of `images`: float32 (B, C, height, width), contiguous, on the model's device already.
  at::Tensor on_device;
  std::int64_t height = 0;  ///< of the model's input
  std::int64_t width = 0;
  std::array<double, 3> mean{};  ///< for images as bytes
  std::array<double, 3> std{};
  /// Is told the number of blocks that are done after each of them, on the calling thread, by the CPU's plan
  /// alone; it must not throw. May be empty.
  std::function<void(std::int64_t)> block_done = {};
  /// The one image is the frame behind the one of the last batch, of the same video: engines with a
  /// memory go on; else they begin anew.
  bool goes_on = false;

  [[nodiscard]] bool is_bytes() const {
    return !images.empty() && images.front().scalar_type() == at::kByte;
  }
  [[nodiscard]] std::int64_t size() const {
    return on_device.defined() ? on_device.size(0) : static_cast<std::int64_t>(images.size());
  }
  /// "a batch of 8 images of 224x224"
  [[nodiscard]] std::string describe() const;
  /// Images that are no bytes as one tensor (B, C, height, width), wherever they are.
  [[nodiscard]] at::Tensor stacked() const;
};

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
