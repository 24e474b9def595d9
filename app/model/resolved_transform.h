// How a model sees pictures, and where each value came from.
#pragma once

#include "app/model/model_source.h"
#include "app/options/requests.h"
#include "app/run/console.h"
#include "model/image/transform_plan.h"

#include <map>
#include <string>

namespace hydrascope::app {

/// The evaluation transform and the origin of each of its values: flags > --config > the metadata
/// of our own files > the configuration beside the weights > the architecture's defaults.
struct ResolvedTransform {
  image::TransformConfig config;
  /// Field -> "`set` crop-pct", "metadata of x.safetensors", "default".
  std::map<std::string, std::string> origins;
  /// A note on values that are assumed because nothing says them, with the options that do. `of` names another model.
  void say_assumed(const Console& console, const std::string& of = "") const;
  /// `transform: resize 256 (bicubic, antialias) -> ... [from ...]`
  [[nodiscard]] std::string describe() const;
};
ResolvedTransform resolve_transform(const TransformRequest& request, const ModelSource& source);

}  // namespace hydrascope::app
