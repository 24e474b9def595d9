// The other model of `compare` and `diagnose`.
#pragma once

#include "app/evaluate/evaluate_options.h"
#include "app/model/model_source.h"
#include "app/pictures/labelled_set.h"
#include "app/pipeline/pipeline.h"
#include "app/results/table.h"
#include "app/run/console.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

/// Opens the other model. Throws Error(invalid_argument) for one of other classes than `model`.
ModelSource open_reference(const ModelRequest& request, const ModelSource& model);

/// That model over the same pictures.
class ReferenceModel {
 public:
  /// Opens it, as above.
  ReferenceModel(ReferenceRequest request, const TransformRequest& transform,
                 const ModelSource& model);

  /// Loads the weights, with notes on what the user must know.
  void load(const Console& console);
  /// Logits (num_classes) of each picture, undefined where there are none; fewer than pictures
  /// after a stop. `notice` is told of what changes on the way.
  std::vector<at::Tensor> classify(std::span<const LabelledPicture> pictures,
                                   const std::function<void(const std::string&)>& notice);

  [[nodiscard]] const ModelSource& source() const noexcept { return source_; }
  /// against, against_attention, against_attention_options, against_img_size, against_precision.
  void add_facts(Summary& summary) const;

 private:
  RunRequest run_;
  ModelSource source_;
  ResolvedTransform transform_;
  std::optional<model::Classifier> classifier_;
};

}  // namespace hydrascope::app
