// One pass of `evaluate` over its pictures: everything that scores them is fed here.
#pragma once

#include "app/console.h"
#include "app/evaluate/error_gallery.h"
#include "app/evaluate/reference_model.h"
#include "app/evaluate/scores.h"
#include "app/faithfulness.h"
#include "app/labelled_set.h"
#include "app/npy_file.h"
#include "app/options.h"
#include "app/pipeline.h"
#include "app/progress.h"
#include "model/image/labels.h"
#include "model/inference/classifier.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <optional>

namespace hydrascope::app {

class Evaluation {
 public:
  /// Opens the files of `--save-logits` and `--save-errors`. All must outlive it.
  Evaluation(const ParsedOptions& options, const LabelledSet& set, model::Classifier& classifier,
             const PipelineOptions& pipeline, const Console& console);

  /// `faithfulness` and `reference` may be null. A stop ends it early; what it interrupts counts
  /// nowhere.
  void run(FaithfulnessRun* faithfulness, ReferenceModel* reference);
  void write_errors(const image::Labels& labels) const;

  [[nodiscard]] const Scores& scores() const noexcept { return scores_; }
  [[nodiscard]] const PipelineTiming& timing() const noexcept { return timing_; }
  [[nodiscard]] bool fails_fast() const noexcept { return fail_fast_; }

 private:
  /// Where another model runs, or this one again, the pipeline has to be idle: pictures come so
  /// many at a time.
  void run_in_parts(std::size_t at_once, FaithfulnessRun* faithfulness, ReferenceModel* reference);
  /// Classifies the pictures before `end` that were not yet.
  void classify_until(std::size_t end, const std::function<bool(PipelineResult&)>& done);
  /// The next picture's outcome; false to end early. `reference`: the other model's logits, if
  /// there are any.
  bool add(const PipelineResult& result, const at::Tensor& reference);

  const LabelledSet& set_;
  model::Classifier& classifier_;
  PipelineOptions pipeline_;
  bool fail_fast_;
  Progress progress_;
  Scores scores_;
  std::optional<NpyWriter> logits_;
  std::optional<ErrorGallery> errors_;
  std::size_t next_ = 0;      ///< picture to be classified
  std::size_t reported_ = 0;  ///< pictures whose outcome is known
  PipelineTiming timing_;
};

}  // namespace hydrascope::app
