// One pass over a set of pictures: everything that scores them is fed here.
#pragma once

#include "app/evaluate/evaluate_options.h"
#include "app/pictures/labelled_set.h"
#include "app/results/npy_file.h"
#include "app/results/report.h"
#include "app/run/progress.h"
#include "app/scores/error_gallery.h"
#include "app/scores/exit_calibration.h"
#include "app/scores/scores.h"
#include "app/session/session.h"
#include "app/tasks/faithfulness.h"
#include "model/image/labels.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::app {

class Evaluation {
 public:
  /// Opens the file of logits. All must outlive it; `faithfulness` and the other model,
  /// `reference`, may be null.
  Evaluation(const ScoreRequest& wanted, const SetJobs& jobs, const LabelledSet& set,
             Session& session, FaithfulnessRun* faithfulness = nullptr,
             Session* reference = nullptr);

  /// A stop ends it early; what it interrupts counts nowhere.
  void run();
  /// The pictures of the worst errors, for a page.
  [[nodiscard]] std::vector<Gallery> surest_errors(const image::Labels& labels) const;

  [[nodiscard]] const Scores& scores() const noexcept { return scores_; }
  [[nodiscard]] const PipelineTiming& timing() const noexcept { return timing_; }
  /// The findings of watched exits, picture by picture.
  [[nodiscard]] const std::vector<ExitTrial>& exit_trials() const noexcept { return trials_; }
  /// Pictures by the layer that they left behind, where pictures may leave; failures are none.
  [[nodiscard]] const std::map<std::int64_t, std::int64_t>& exit_layers() const noexcept {
    return exit_layers_;
  }

 private:
  /// The pipeline has to be idle while another model runs, or this one again: pictures come so
  /// many at a time.
  void run_in_parts(std::size_t at_once);
  /// Classifies the pictures before `end` that were not yet.
  void classify_until(std::size_t end, const std::function<bool(PipelineResult&)>& done);
  /// The next picture's outcome; false to end early. `reference`: the other model's logits, if
  /// there are any.
  bool add(const PipelineResult& result, const at::Tensor& reference);
  /// Adds the exits' part in a picture whose class the model has found.
  void add_exit(const PictureExit& exit, std::int64_t class_index);

  const LabelledSet& set_;
  Session& session_;
  FaithfulnessRun* faithfulness_;
  Session* reference_;
  Progress progress_;
  Scores scores_;
  std::optional<NpyWriter> logits_;
  ErrorGallery errors_;
  std::size_t next_ = 0;      ///< picture to be classified
  std::size_t reported_ = 0;  ///< pictures whose outcome is known
  PipelineTiming timing_;
  std::vector<ExitTrial> trials_;
  std::map<std::int64_t, std::int64_t> exit_layers_;
};

}  // namespace hydrascope::app
