#include "app/evaluate/scores.h"

#include <cmath>
#include <string>

namespace hydrascope::app {
namespace {

/// A number, or nothing where there is none.
void add_number(KeyValueReport& summary, const std::string& key, double value, int decimals) {
  if (std::isfinite(value)) {
    summary.add(key, value, decimals);
  } else {
    summary.add_nothing(key);
  }
}

}  // namespace

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

void Scores::add_accuracy(KeyValueReport& summary) const {
  if (set_.has_labels) {
    summary.add("top1", top1(), 2);
    summary.add("top5", accuracy_.images() == 0 ? 0 : accuracy_.top5(), 2);
  } else {
    summary.add_nothing("top1");
    summary.add_nothing("top5");
  }
  summary.add("images", images_);
  summary.add("failed", failed_);
}

void Scores::add_calibration(KeyValueReport& summary) const {
  if (set_.has_labels) {
    constexpr int kDecimals = 4;
    add_number(summary, "nll", calibration_.negative_log_likelihood(), kDecimals);
    add_number(summary, "brier", calibration_.brier(), kDecimals);
    add_number(summary, "ece", calibration_.expected_error(), kDecimals);
    add_number(summary, "mce", calibration_.maximum_error(), kDecimals);
  }
  if (set_.has_real_labels) {
    add_number(summary, "top1_real", real_.top1(), 2);
    summary.add("images_real", real_.images());
  }
}

void Scores::add_agreement(KeyValueReport& summary) const {
  summary.add("agreement_images", agreement_.images());
  add_number(summary, "agreement_top1", agreement_.top1(), 2);
  add_number(summary, "agreement_kl", agreement_.divergence(), 6);
  add_number(summary, "largest_logit_difference", agreement_.largest_difference(), 4);
  add_number(summary, "mean_logit_difference", agreement_.mean_difference(), 5);
  if (!set_.has_labels) return;
  add_number(summary, "against_top1", agreement_.reference().top1(), 2);
  add_number(summary, "against_top5", agreement_.reference().top5(), 2);
  const Agreement::Counts& counts = agreement_.counts();
  const Agreement::Difference difference = agreement_.top1_difference();
  add_number(summary, "top1_difference", difference.mean, 2);
  add_number(summary, "top1_difference_error", difference.error, 2);
  summary.add("both_right", counts.both);
  summary.add("only_model_right", counts.only_model);
  summary.add("only_against_right", counts.only_reference);
  summary.add("both_wrong", counts.neither);
  summary.add("mcnemar_p", mcnemar_p(counts.only_model, counts.only_reference), 6);
}

}  // namespace hydrascope::app
