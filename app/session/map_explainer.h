// From the tokens that a model traced to the maps that were asked for.
#pragma once

#include "app/maps/input_map.h"
#include "app/maps/map_choice.h"
#include "app/model/model_source.h"
#include "app/pipeline/pipeline.h"
#include "app/pipeline/predictions.h"
#include "model/explain/explainer.h"
#include "model/image/transform_plan.h"
#include "model/inference/inference_options.h"
#include "model/zoom/views.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

/// The purpose that a model's tokens are traced for.
struct TracedFor {
  std::vector<MapChoice> maps = {};
  model::explain::MaplessLayers mapless = model::explain::MaplessLayers::skip;
  bool embeddings = false;  ///< the features of the engine; nothing is traced for them
  bool patches = false;     ///< `MapExplainer::patch_tokens`
  bool finds = false;       ///< `MapExplainer::attention`
};

/// Whether one thread explains so many tokens of all layers: that takes little time, and threads that wait for each
/// other's small products keep the processors from those that draw and decode, and from other programs.
constexpr bool has_few_tokens(std::int64_t tokens_of_all_layers) {
  return tokens_of_all_layers < 20'000;
}

class MapExplainer {
 public:
  /// The blocks whose incoming tokens the classifier must trace.
  static std::vector<std::int64_t> traced_layers(const model::VitConfig& config,
                                                 const TracedFor& wanted);

  /// `classifier`: the options of the one that answers.
  MapExplainer(std::uint64_t seed, const ModelSource& source, TracedFor wanted,
               const model::inference::InferenceOptions& classifier);

  /// For a result without an error, and for each of `choices`, which are among the constructor's, a map
  /// of every class, or of the first where the method's is the same for all. Results of a classifier with a
  /// memory come in their order, all of them. The map of a picture that was seen in parts is the mean of the maps of
  /// the views that say most of the class, each at its place, by what they say of it.
  std::vector<InputMap> explain(const PipelineResult& result, std::span<const Prediction> classes,
                                std::span<const MapChoice> choices,
                                const model::explain::BeforeStep& before_step = {});
  /// `Explainer::patch_row`; of several views on the view of the whole.
  viz::HeatMap patch_row(const PipelineResult& result, std::int64_t layer, std::int64_t row,
                         std::int64_t column);
  /// The class token's attention over the patches, with `TracedFor::finds`: the mean of the heads and of the layers of the second half.
  zoom::AttentionMap attention(const PipelineResult& result);
  /// The patch tokens after the last norm, (patches, embed_dim) float32 on the CPU: with
  /// `TracedFor::patches`.
  at::Tensor patch_tokens(const PipelineResult& result);

 private:
  std::vector<InputMap> explain_one(const PipelineResult& result,
                                    std::span<const Prediction> classes,
                                    std::span<const MapChoice> choices,
                                    const model::explain::BeforeStep& before_step);
  std::vector<InputMap> explain_views(const PipelineResult& result, const Prediction& of_class,
                                      std::span<const MapChoice> choices,
                                      const model::explain::BeforeStep& before_step);
  [[nodiscard]] model::TokenGrid grid_of(const image::TransformPlan& plan) const;

  model::VitConfig config_;
  TracedFor wanted_;
  std::function<at::Tensor(const at::Tensor&)>
      class_vectors_of_;  ///< `ModelSource::class_vectors_of`
  bool remembers_;
  FollowedFrames frames_;
  model::explain::Explainer explainer_;
};

}  // namespace hydrascope::app
