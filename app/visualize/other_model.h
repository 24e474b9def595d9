// `visualize --against`: what a second model says of the same pictures, for the page.
#pragma once

#include "app/evaluate/evaluate_options.h"
#include "app/model/model_source.h"
#include "app/visualize/map_choice.h"
#include "app/visualize/map_explainer.h"
#include "app/visualize/output_stage.h"
#include "model/inference/classifier.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

class OtherModel {
 public:
  /// Opens it. Its maps are those of `words` that it has; what it has not is noted. Throws
  /// Error(invalid_argument) where it has none of them, or other classes than `first`.
  OtherModel(const ModelRequest& request, const TransformRequest& transform,
             const ModelSource& first, const MapWords& words);

  /// Loads the weights, with notes on what the user must know.
  void load(const RunRequest& run, const Console& console);
  /// The maps of `classes` over a decoded picture, on the calling thread. Throws Error(failed) where
  /// its logits are not finite.
  ModelAnswer explain(const image::Picture& picture, std::span<const std::int64_t> classes,
                      std::int64_t num_best, const image::Labels& labels,
                      const FigureOptions& figure, std::int64_t max_pixels);
  [[nodiscard]] const ModelSource& source() const noexcept { return source_; }

 private:
  ModelSource source_;
  ResolvedTransform transform_;
  MapSelection selection_;
  model::explain::MaplessLayers mapless_;
  std::optional<model::Classifier> classifier_;
  std::optional<MapExplainer> explainer_;
};

/// What a page calls two models: their names, with the attention where those are the same.
std::vector<std::string> names_of_two(const ModelSource& one, const ModelSource& other);

}  // namespace hydrascope::app
