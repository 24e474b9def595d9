// An engine that gives the features of a picture beside the logits, in the same pass and by the same
// kernels: the identity is joined to the classifier of another engine.
#pragma once

#include "model/inference/engine.h"
#include "model/inference/overlap.h"
#include "model/weight_table.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace hydrascope::model {

/// The vector of a picture: the input of the classifier (timm's `forward_head(pre_logits=True)`), the class
/// token after the last norm, the mean of the patch tokens after it, or the output of the last layer, which
/// is CLIP's projection.
enum class Features { pooled, class_token, patch_mean, projected };

/// The answer that a model makes of its features.
struct FeatureAnswer {
  VitConfig model;  ///< of the weights
  Features features = Features::pooled;
  /// Features float32 (B, D) and the model's own logits (B, num_classes), without columns where the
  /// features are not the input of its classifier, both on the CPU -> logits (B, classes), float32 on the
  /// CPU. Called by one thread at a time. Without a function the model's own logits are the answer.
  std::function<at::Tensor(const at::Tensor& features, const at::Tensor& logits)> answer = {};
};

/// Whether these features are the input of the model's classifier.
bool are_pooled(const VitConfig& config, Features features);
/// The reason why a model has no such features; empty if it has them.
std::string why_no_features(const VitConfig& config, Features features);

namespace inference {

/// The weights with the identity below the rows of the classifier: logits (B, num_classes + D). The rows of
/// the classifier are left out where the features are not its input. The mean of two heads is the answer
/// of a distilled model, hence its features are the mean of both tokens, or twice the first head's. Plans
/// keep the head in float32, hence its products by one and zero are exact.
WeightTable with_feature_head(const WeightTable& weights, Features features);

class FeatureEngine final : public Engine, private Overlap {
 public:
  /// `engine` runs `with_feature_head`'s weights; `config` has the answer's number of classes.
  FeatureEngine(std::unique_ptr<Engine> engine, VitConfig config, FeatureAnswer answer);

  [[nodiscard]] std::int64_t enough_tokens() const noexcept override;
  [[nodiscard]] Overlap* overlap() noexcept override;
  [[nodiscard]] EngineDescription describe() const override;
  bool collect_stage_times(StageTimes* times) noexcept override;

 private:
  EngineOutputs run(const ImageBatch& batch) override;
  [[nodiscard]] int most_under_way() const noexcept override;
  PendingBatch::Wait begin(const ImageBatch& batch) override;
  [[nodiscard]] EngineOutputs answered(EngineOutputs outputs) const;

  std::unique_ptr<Engine> engine_;
  FeatureAnswer answer_;
};

}  // namespace inference
}  // namespace hydrascope::model
