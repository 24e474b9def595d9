// The modules as an engine: for devices and precisions that have no plan, and as the reference.
#pragma once

#include "model/inference/engine.h"
#include "model/vision_transformer.h"
#include "model/weight_table.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hydrascope::model::inference {

class ModulesEngine final : public Engine {
 public:
  /// Fills modules of its own and moves them to the options' device and type.
  ModulesEngine(const WeightTable& weights, const InferenceOptions& options);

  [[nodiscard]] std::int64_t enough_tokens() const noexcept override;
  [[nodiscard]] EngineDescription describe() const override;

 private:
  EngineOutputs run(const ImageBatch& batch) override;
  /// The whole model has answered: the first exit by the rule answers in its place. Saves no time.
  void judge_exits(const TokenGrid& grid, const std::vector<at::Tensor>& block_inputs,
                   EngineOutputs& outputs);

  AttentionImpl& attention(std::int64_t layer) { return model_->block(layer).attention(); }

  VisionTransformer model_;
};

}  // namespace hydrascope::model::inference
