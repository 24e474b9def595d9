// The modules as an engine: for devices and precisions that have no plan, and as the reference.
#pragma once

#include "model/inference/engine.h"
#include "model/inference/inference_options.h"

namespace hydrascope::model::inference {

class ModulesEngine final : public SynchronousEngine {
 public:
  /// Fills the model and moves it to the options' device and type.
  ModulesEngine(const EngineSource& source, const InferenceOptions& options);

  [[nodiscard]] EngineLimits limits() const noexcept override;
  [[nodiscard]] EngineDescription describe() const override;

 protected:
  Outputs compute(const at::Tensor& images) override;

 private:
  VisionTransformer model_;
  InferenceOptions options_;
};

}  // namespace hydrascope::model::inference
