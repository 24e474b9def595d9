// One pass over a set of pictures: everything that scores them is fed here.
#pragma once

#include "app/evaluate/evaluate_options.h"
#include "app/evaluate/faithfulness.h"
#include "app/model/model_source.h"
#include "app/model/precision_check.h"
#include "app/pictures/labelled_set.h"
#include "app/pipeline/pipeline.h"
#include "app/results/table.h"
#include "app/run/console.h"
#include "app/run/process_team.h"
#include "app/run/progress.h"
#include "app/scores/error_gallery.h"
#include "app/scores/scores.h"
#include "model/image/labels.h"
#include "model/inference/classifier.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

// The other model of `compare` and `diagnose`.

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

class Evaluation {
 public:
  /// Opens the files of logits and errors. Of several processes each evaluates
  /// its share of the set. All must outlive it.
  Evaluation(const ScoreRequest& wanted, const SetJobs& jobs, bool fail_fast,
             const LabelledSet& set, model::Classifier& classifier, const PipelineOptions& pipeline,
             const Console& console, ProcessTeam& team);

  /// `check` is told of every result.
  void watch(PrecisionCheck& check) { check_ = &check; }
  /// `faithfulness` and `reference` may be null. A stop ends it early; what it interrupts counts
  /// nowhere.
  void run(FaithfulnessRun* faithfulness, ReferenceModel* reference);
  /// The scores of all processes become those of each, and the files of logits are completed. All
  /// processes call it.
  void gather();
  /// The sheets of the worst errors, and the page with them, as far as they are wanted.
  void write_errors(const image::Labels& labels, const Summary& summary) const;

  [[nodiscard]] const Scores& scores() const noexcept { return scores_; }
  [[nodiscard]] const PipelineTiming& timing() const noexcept { return timing_; }
  [[nodiscard]] bool fails_fast() const noexcept { return fail_fast_; }
  /// `run` ended early because of a picture of this process.
  [[nodiscard]] bool ended_by_failure() const noexcept { return fail_fast_ && !failures_.empty(); }

 private:
  /// Where another model runs, or this one again, the pipeline has to be idle: pictures come so
  /// many at a time.
  void run_in_parts(std::size_t at_once, FaithfulnessRun* faithfulness, ReferenceModel* reference);
  /// Classifies the pictures before `end` that were not yet.
  void classify_until(std::size_t end, const std::function<bool(PipelineResult&)>& done);
  /// The next picture's outcome; false to end early. `reference`: the other model's logits, if
  /// there are any.
  bool add(const PipelineResult& result, const at::Tensor& reference);

  void take(const ScoredPicture& picture);

  const LabelledSet& set_;
  ProcessTeam& team_;
  std::vector<std::size_t> own_;  ///< this process's share: indices in the set
  model::Classifier& classifier_;
  PipelineOptions pipeline_;
  bool fail_fast_;
  std::string page_;         ///< `--html`
  bool has_sheets_ = false;  ///< `--save-errors`
  Progress progress_;
  Scores scores_;
  std::optional<LogitsFile> logits_;
  std::optional<ErrorGallery> errors_;
  std::size_t next_ = 0;      ///< of `own_`: picture to be classified
  std::size_t reported_ = 0;  ///< pictures whose outcome is known
  // Of this process, kept where there are others.
  std::vector<ScoredPicture> scored_;
  std::vector<std::size_t> failures_;
  PipelineTiming timing_;
  PrecisionCheck* check_ = nullptr;
};

}  // namespace hydrascope::app
