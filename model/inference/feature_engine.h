// An engine that answers from the features of another one: the input of the classifier's head takes the
// place of the logits, in the same pass and by the same kernels.
#pragma once

#include "model/inference/engine.h"
#include "model/weight_table.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace hydrascope::model {

/// What a model answers of its features in the place of its classifier.
struct FeatureAnswer {
  VitConfig model;  ///< of the weights, pooled as the features are
  bool of_class =
      false;  ///< features are the class token's, also where a distilled model takes a mean
  bool wants_logits = false;  ///< `answer` gets the classifier's logits, too
  /// Features float32 (B, D) and the classifier's logits (B, num_classes), or nothing, both on the CPU ->
  /// float32 (B, classes) on the CPU. Called by one thread at a time.
  std::function<at::Tensor(const at::Tensor& features, const at::Tensor& logits)> answer;
};

namespace inference {

/// The table of a model whose head is the identity, followed by the rows of the model's own head where
/// they are wanted: logits (B, D) or (B, D + num_classes). A distilled model gives the mean of both
/// tokens. Plans keep the head in float32, hence its products by one and zero are exact.
WeightTable with_feature_head(const WeightTable& weights, const FeatureAnswer& answer);

class FeatureEngine final : public Engine {
 public:
  /// `features` runs `with_feature_head`'s weights; `config` has the answer's number of classes.
  FeatureEngine(std::unique_ptr<Engine> features, VitConfig config, FeatureAnswer answer);

  [[nodiscard]] std::int64_t enough_tokens() const noexcept override;
  [[nodiscard]] EngineDescription describe() const override;
  bool collect_stage_times(StageTimes* times) noexcept override;

 private:
  EngineOutputs run(const ImageBatch& batch) override;

  std::unique_ptr<Engine> features_;
  FeatureAnswer answer_;
};

}  // namespace inference
}  // namespace hydrascope::model
