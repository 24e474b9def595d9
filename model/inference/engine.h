// The interface of everything that runs a model: batches in, logits out, perhaps several under way. The plan of the CPU
// (inference_plan.h), that of a GPU (cuda_plan.h) and the modules (modules_engine.h) are engines; a
// Classifier owns one of them, and whoever feeds pictures knows none of the three.
#pragma once

#include "model/config/config.h"
#include "model/inference/cpu/stage_times.h"
#include "model/inference/image_batch.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::inference {

/// Tokens that keep a GPU busy.
inline constexpr std::int64_t kBusyGpuTokens = 65536;

struct EngineLimits {
  int most_under_way = 1;    ///< batches submitted and not collected
  bool takes_bytes = false;  ///< as images, which spares the caller their normalisation
  /// Tokens of a batch that keep the processor busy; more only add latency and memory.
  std::int64_t enough_tokens = 1600;
};

struct EngineDescription {
  /// "fused", "fused+modules" (some mechanisms have no kernels), "modules" or "reference"; on a GPU
  /// after it what LibTorch runs softmax layers on, once that is chosen: "fused+softmax:cudnn".
  std::string kernels;
  /// On a GPU: a line for each matrix product with its algorithm, so that runs can be compared.
  std::vector<std::string> products = {};
};

class Engine {
 public:
  virtual ~Engine() = default;

  [[nodiscard]] const VitConfig& config() const noexcept { return config_; }
  /// Tokens of one image of that size, prefix tokens included.
  [[nodiscard]] std::int64_t num_tokens(std::int64_t height, std::int64_t width) const {
    return config_.token_grid_of_pixels(height, width).num_tokens();
  }

  /// Starts a batch. Throws Error(out_of_memory) when the device says so; a batch whose `submit`
  /// throws is not under way.
  virtual void submit(const ImageBatch& batch) = 0;
  /// Waits for the oldest: float32 (B, num_classes) on the CPU.
  virtual at::Tensor collect() = 0;
  /// Gives once, for the batch that `collect` gave last, the tokens that entered the blocks of
  /// InferenceOptions::trace_layers, float32 (B, layers, N, D), on any device; undefined where none
  /// are traced.
  [[nodiscard]] virtual at::Tensor take_traced_tokens() { return {}; }
  [[nodiscard]] virtual int under_way() const noexcept = 0;
  [[nodiscard]] virtual EngineLimits limits() const noexcept = 0;
  [[nodiscard]] virtual EngineDescription describe() const { return {}; }
  /// Seconds of all threads by stage since the first call with it on; null ends it. Returns whether
  /// the engine counts them.
  virtual bool collect_stage_times(StageTimes* /*times*/) noexcept { return false; }

 protected:
  /// An engine of a model of that configuration.
  explicit Engine(VitConfig config) : config_(std::move(config)) {}
  Engine(const Engine&) = default;
  Engine(Engine&&) = default;
  Engine& operator=(const Engine&) = default;
  Engine& operator=(Engine&&) = default;

 private:
  VitConfig config_;
};

/// An engine that computes a batch when it is submitted.
class SynchronousEngine : public Engine {
 public:
  void submit(const ImageBatch& batch) final;
  at::Tensor collect() final;
  [[nodiscard]] at::Tensor take_traced_tokens() final;
  [[nodiscard]] int under_way() const noexcept final { return static_cast<int>(computed_.size()); }

 protected:
  using Engine::Engine;
  struct Outputs {
    at::Tensor logits;
    at::Tensor trace;
  };
  /// images: float32 (B, C, H, W).
  virtual Outputs compute(const at::Tensor& images) = 0;

 private:
  std::deque<Outputs> computed_;  ///< not collected yet
  at::Tensor trace_;              ///< of the batch collected last
};

}  // namespace hydrascope::model::inference
