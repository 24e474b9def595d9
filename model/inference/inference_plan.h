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
#include <vector>

namespace hydrascope::model::inference {

class InferencePlan final : public SynchronousEngine {
 public:
  /// Error(invalid_argument) says which layer has no kernels, with Kernels::fused.
  InferencePlan(const EngineSource& source, const InferenceOptions& options);
  ~InferencePlan() override;
  InferencePlan(InferencePlan&&) noexcept;
  InferencePlan& operator=(InferencePlan&&) noexcept;

  /// Plans the workspace for `batch` images of that size, unless the current one serves.
  void prepare(std::int64_t batch, std::int64_t height, std::int64_t width);
  /// images: float32 (B, C, H, W) on the CPU, normalised -> float32 (B, num_classes). `trace` may be
  /// null; it becomes `tokens` of `trace_layers`. One call at a time.
  at::Tensor logits(const at::Tensor& images, at::Tensor* trace = nullptr);
  /// The tokens that enter the blocks `layers` (ascending, at least one), float32 (B, layers, N,
  /// D). The number of blocks stands for the tokens that leave the last block; of these only the
  /// tokens that the classifier reads are set. Where `logits` is null, blocks behind the last of
  /// `layers` are not computed. One call at a time.
  at::Tensor tokens(const at::Tensor& images, const std::vector<std::int64_t>& layers,
                    at::Tensor* logits = nullptr);

  [[nodiscard]] EngineLimits limits() const noexcept override { return {}; }
  [[nodiscard]] EngineDescription describe() const override;
  bool collect_stage_times(StageTimes* times) noexcept override;

 protected:
  Outputs compute(const at::Tensor& images) override;

 private:
  void check(const at::Tensor& images) const;
  at::Tensor run(const at::Tensor& images, const Observers& observers);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::model::inference
