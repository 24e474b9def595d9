// From the tokens that a model traced to the maps that were asked for.
#pragma once

#include "app/model/model_source.h"
#include "app/pipeline/pipeline.h"
#include "app/visualize/input_map.h"
#include "app/visualize/map_choice.h"
#include "model/explain/explainer.h"
#include "model/image/transform_plan.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace hydrascope::app {

/// What a model's tokens are traced for.
struct TracedFor {
  std::vector<MapChoice> maps;
  model::explain::MaplessLayers mapless = model::explain::MaplessLayers::skip;
  bool embeddings = false;
};

class MapExplainer {
 public:
  /// The blocks whose incoming tokens the classifier must trace.
  static std::vector<std::int64_t> traced_layers(const model::VitConfig& config,
                                                 const TracedFor& wanted);

  MapExplainer(std::uint64_t seed, const ModelSource& source, TracedFor wanted, c10::Device device);

  [[nodiscard]] const TracedFor& wanted() const noexcept { return wanted_; }
  /// Where the patches of a result without an error lie, where that is one view.
  [[nodiscard]] viz::Placement placement(const PipelineResult& result,
                                         const image::TransformConfig& transform,
                                         std::int64_t max_pixels) const;
  /// Of a result without an error, for each of `choices`, which are among the constructor's, a map
  /// of every class, or of the first where the method's is the same for all; of a picture in several
  /// views, maps of each class's best one.
  std::vector<InputMap> explain(const PipelineResult& result, const viz::Placement& placement,
                                std::span<const Prediction> classes,
                                std::span<const MapChoice> choices,
                                const model::explain::BeforeStep& before_step = {});
  /// `Explainer::patch_row`, of a result in one view.
  viz::HeatMap patch_row(const PipelineResult& result, const viz::Placement& placement,
                         std::int64_t layer, std::int64_t row, std::int64_t column);
  /// What the classifier's head is given, (embed_dim) float32 on the CPU: of a result in one view,
  /// with `TracedFor::embeddings`.
  at::Tensor embedding(const PipelineResult& result, const viz::Placement& placement);

 private:
  std::vector<InputMap> explain(const at::Tensor& tokens, const viz::Placement& placement,
                                std::span<const Prediction> classes,
                                std::span<const MapChoice> choices,
                                const model::explain::BeforeStep& before_step);
  [[nodiscard]] model::TokenGrid grid_of(const viz::Placement& placement) const;

  model::VitConfig config_;
  TracedFor wanted_;
  model::explain::Explainer explainer_;
};

}  // namespace hydrascope::app
