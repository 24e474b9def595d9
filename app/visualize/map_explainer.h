// From the tokens that a model traced to the maps that the command line asked for.
#pragma once

#include "app/model/model_source.h"
#include "app/visualize/input_map.h"
#include "app/visualize/map_choice.h"
#include "model/attention/token_grid.h"
#include "model/explain/explainer.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace hydrascope::app {

class MapExplainer {
 public:
  /// The blocks whose incoming tokens the classifier must trace.
  static std::vector<std::int64_t> traced_layers(const model::VitConfig& config,
                                                 std::span<const MapChoice> choices,
                                                 model::explain::MaplessLayers mapless);

  MapExplainer(std::uint64_t seed, const ModelSource& source, std::vector<MapChoice> choices,
               model::explain::MaplessLayers mapless, c10::Device device);

  /// tokens: PipelineResult::tokens. For each choice a map of every class, or of the first where
  /// the method's is the same for all.
  std::vector<InputMap> explain(const at::Tensor& tokens, const model::TokenGrid& grid,
                                std::span<const Prediction> classes);

 private:
  model::VitConfig config_;
  std::vector<MapChoice> choices_;
  model::explain::MaplessLayers mapless_;
  model::explain::Explainer explainer_;
};

}  // namespace hydrascope::app
