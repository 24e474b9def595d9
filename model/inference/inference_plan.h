// A model compiled for inference on the CPU: weights prepacked once, a workspace for the image size
// at hand (another size replaces it), no lock per call and no allocation but the logits'. Its
// logits agree with the modules' within what the storage type's rounding explains
// (tests/model/inference/plan_test.cpp).
#pragma once

#include "model/inference/cpu/observers.h"
#include "model/inference/engine.h"
#include "model/inference/inference_options.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

namespace hydrascope::model::inference {

/// How many of an image's patches go on where tokens are dropped.
std::int64_t kept_patches(const InferenceOptions& options, std::int64_t patches);

class InferencePlan final : public SynchronousEngine {
 public:
  /// Why there is no plan for this dtype; empty where there is one.
  static std::string unsupported(at::ScalarType dtype);

  /// Error(invalid_argument) says which layer has no kernels, with Kernels::fused, or why
  /// `keep_tokens` cannot serve the model.
  InferencePlan(const EngineSource& source, const InferenceOptions& options);
  ~InferencePlan() override;
  InferencePlan(InferencePlan&&) noexcept;
  InferencePlan& operator=(InferencePlan&&) noexcept;

  /// Plans the workspace for `batch` images of that size, unless the current one serves.
  void prepare(std::int64_t batch, std::int64_t height, std::int64_t width);
  /// images: float32 (B, C, H, W) on the CPU, normalised -> float32 (B, num_classes). `trace` may be
  /// null; it becomes the tokens that enter the blocks of `trace_layers`, float32 (B, layers, N, D).
  /// One call at a time.
  at::Tensor logits(const at::Tensor& images, at::Tensor* trace = nullptr);

  [[nodiscard]] EngineLimits limits() const noexcept override { return {}; }
  [[nodiscard]] EngineDescription describe() const override;
  bool collect_stage_times(StageTimes* times) noexcept override;

 protected:
  Outputs compute(const at::Tensor& images) override;

 private:
  at::Tensor run(const at::Tensor& images, const Observers& observers);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::model::inference
