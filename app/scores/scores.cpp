#include "app/scores/scores.h"

#include <string>

namespace hydrascope::app {

void Scores::add(const ScoredPicture& picture) {
  ++images_;
  accuracy_.add(picture);
  if (set_.has_real_labels) real_.add(picture, set_.pictures[picture.index].valid);
  calibration_.add(picture);
  confusions_.add(picture);
}

void Scores::add_reference(const ScoredPicture& picture, std::span<const float> logits,
                           std::span<const float> reference_logits) {
  agreement_.add(picture, score_picture(reference_logits, picture.target, picture.index),
                 compare_logits(logits, reference_logits));
}

double Scores::top1() const { return accuracy_.images() == 0 ? 0 : accuracy_.top1(); }

void Scores::add_accuracy(Summary& summary) const {
  if (set_.has_labels) {
    summary.add("top1", top1(), 2);
    summary.add("top5", accuracy_.images() == 0 ? 0 : accuracy_.top5(), 2);
  } else {
    summary.add("top1", nullptr);
    summary.add("top5", nullptr);
  }
  summary.add("images", images_);
  summary.add("failed", failed_);
}

void Scores::add_calibration(Summary& summary) const {
  if (set_.has_labels) {
    constexpr int kDecimals = 4;
    summary.add("nll", calibration_.negative_log_likelihood(), kDecimals);
    summary.add("brier", calibration_.brier(), kDecimals);
    summary.add("ece", calibration_.expected_error(), kDecimals);
    summary.add("mce", calibration_.maximum_error(), kDecimals);
  }
  if (set_.has_real_labels) {
    summary.add("top1_real", real_.top1(), 2);
    summary.add("images_real", real_.images());
  }
}

void Scores::add_agreement(Summary& summary) const {
  summary.add("agreement_images", agreement_.images());
  summary.add("agreement_top1", agreement_.top1(), 2);
  summary.add("agreement_kl", agreement_.divergence(), 6);
  summary.add("largest_logit_difference", agreement_.largest_difference(), 4);
  summary.add("mean_logit_difference", agreement_.mean_difference(), 5);
  if (!set_.has_labels) return;
  summary.add("against_top1", agreement_.reference().top1(), 2);
  summary.add("against_top5", agreement_.reference().top5(), 2);
  const Agreement::Counts& counts = agreement_.counts();
  const Agreement::Difference difference = agreement_.top1_difference();
  summary.add("top1_difference", difference.mean, 2);
  summary.add("top1_difference_error", difference.error, 2);
  summary.add("both_right", counts.both);
  summary.add("only_model_right", counts.only_model);
  summary.add("only_against_right", counts.only_reference);
  summary.add("both_wrong", counts.neither);
  summary.add("mcnemar_p", mcnemar_p(counts.only_model, counts.only_reference), 6);
}

}  // namespace hydrascope::app
