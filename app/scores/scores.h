// All scores of an evaluation, fed with one picture after the other, and the lines that they add to
// the summary.
#pragma once

#include "app/pictures/labelled_set.h"
#include "app/results/table.h"
#include "app/scores/accuracy.h"
#include "app/scores/agreement.h"
#include "app/scores/calibration_score.h"
#include "app/scores/confusion_counts.h"
#include "app/scores/scored_picture.h"

#include <cstdint>
#include <span>

namespace hydrascope::app {

class Scores {
 public:
  /// `set` must outlive it.
  explicit Scores(const LabelledSet& set) : set_(set) {}

  void add_failure() { ++failed_; }
  /// A picture that was classified: that of `picture.index`.
  void add(const ScoredPicture& picture);
  /// The same picture by the reference, where that could classify it.
  void add_reference(const ScoredPicture& picture, std::span<const float> logits,
                     std::span<const float> reference_logits);

  [[nodiscard]] std::int64_t failed() const noexcept { return failed_; }
  /// 0 where no labelled picture was classified.
  [[nodiscard]] double top1() const;
  [[nodiscard]] const CalibrationScore& calibration() const noexcept { return calibration_; }
  [[nodiscard]] const ConfusionCounts& confusions() const noexcept { return confusions_; }

  /// top1, top5, images, failed.
  void add_accuracy(Summary& summary) const;
  /// nll, brier, ece, mce; top1_real, images_real.
  void add_calibration(Summary& summary) const;
  void add_agreement(Summary& summary) const;

 private:
  const LabelledSet& set_;
  std::int64_t images_ = 0;
  std::int64_t failed_ = 0;
  Accuracy accuracy_;
  RealAccuracy real_;
  CalibrationScore calibration_;
  ConfusionCounts confusions_;
  Agreement agreement_;
};

}  // namespace hydrascope::app
