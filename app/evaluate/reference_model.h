// The other model of `compare` and `diagnose`.
#pragma once

#include "app/console.h"
#include "app/labelled_set.h"
#include "app/model_source.h"
#include "app/options.h"
#include "app/pipeline.h"
#include "app/results/table.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

/// Opens what `--against`, `--against-attn` and `--against-attn-opt` name. Where `--against` names
/// another file, `--checkpoint`, `--use-ema`, `--attn`, `--attn-opt`, `--num-classes` and
/// `--reset-head` are the first model's alone. Throws Error(invalid_argument) for a model of other
/// classes than `model`.
ModelSource open_reference(const ParsedOptions& options, const ModelSource& model);

/// That model over the same pictures.
class ReferenceModel {
 public:
  /// Opens it, as above. What else the options say of a run (device, kernels, sizes) goes for both;
  /// `--keep-tokens` and `--keep-layer` are the first model's alone.
  ReferenceModel(const ParsedOptions& options, const ModelSource& model);

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
  ParsedOptions options_;
  ModelSource source_;
  ResolvedTransform transform_;
  std::optional<model::Classifier> classifier_;
};

/// The first model's: without `--calibration` where that is the reference's alone.
ParsedOptions options_beside_reference(const ParsedOptions& options);

}  // namespace hydrascope::app
