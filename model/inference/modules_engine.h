// The modules as an engine: for devices and precisions that have no plan, and as the reference.
#pragma once

#include "model/inference/engine.h"
#include "model/vision_transformer.h"
#include "model/weight_table.h"

namespace hydrascope::model::inference {

class ModulesEngine final : public Engine {
 public:
  /// Fills modules of its own and moves them to the options' device and type.
  ModulesEngine(const WeightTable& weights, const InferenceOptions& options);

  [[nodiscard]] std::int64_t enough_tokens() const noexcept override;
  [[nodiscard]] EngineDescription describe() const override;

 private:
  EngineOutputs run(const ImageBatch& batch) override;

  VisionTransformer model_;
};

}  // namespace hydrascope::model::inference
