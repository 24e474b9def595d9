#include "app/scores/scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace hydrascope::app {

ScoredPicture score_picture(std::span<const float> logits, std::int64_t target, std::size_t index) {
  ScoredPicture scored;
  scored.index = index;
  scored.target = target;
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i) {
    // Whatever is compared with NaN is not greater: a number takes its place.
    if (logits[i] > logits[best] || (std::isnan(logits[best]) && !std::isnan(logits[i]))) best = i;
  }
  scored.predicted = static_cast<std::int64_t>(best);
  const double largest = logits[best];
  double sum = 0;
  double squares = 0;
  for (const float logit : logits) {
    const double weight = std::exp(logit - largest);
    sum += weight;
    squares += weight * weight;
  }
  scored.confidence = 1 / sum;
  if (!scored.is_labelled()) return scored;

  const auto wanted = static_cast<std::size_t>(target);
  scored.rank = 1;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool not_below = i < wanted ? logits[i] >= logits[wanted] : logits[i] > logits[wanted];
    const bool beats_nan = std::isnan(logits[wanted]) && i != wanted;
    if (not_below || beats_nan) ++scored.rank;
  }
  const double probability = std::exp(logits[wanted] - largest) / sum;
  scored.target_probability = probability;
  scored.log_loss = std::log(sum) - (logits[wanted] - largest);
  scored.brier = squares / (sum * sum) - 2 * probability + 1;
  return scored;
}

namespace {

/// ln of the sum of exp.
double log_sum_exp(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

}  // namespace

ComparedLogits compare_logits(std::span<const float> model, std::span<const float> reference) {
  ComparedLogits compared;
  const double normaliser = log_sum_exp(model);
  const double reference_normaliser = log_sum_exp(reference);
  double sum = 0;
  for (std::size_t i = 0; i < model.size(); ++i) {
    const double log_p = reference[i] - reference_normaliser;
    const double log_q = model[i] - normaliser;
    compared.divergence += std::exp(log_p) * (log_p - log_q);
    const double difference = std::abs(double{model[i]} - double{reference[i]});
    // A difference that is no number stays.
    if (!(difference <= compared.largest_difference)) compared.largest_difference = difference;
    sum += difference;
  }
  compared.divergence = std::max(compared.divergence, 0.0);  // but for rounding
  compared.mean_difference = sum / static_cast<double>(model.size());
  return compared;
}

void Agreement::add(const ScoredPicture& model, const ScoredPicture& reference,
                    const ComparedLogits& compared) {
  ++images_;
  if (model.predicted == reference.predicted) ++same_;
  divergences_ += compared.divergence;
  differences_ += compared.mean_difference;
  if (!(compared.largest_difference <= largest_difference_))
    largest_difference_ = compared.largest_difference;
  reference_.add(reference);
  if (!model.is_labelled()) return;
  ++labelled_;
  const bool right = model.is_right();
  if (right != reference.is_right()) ++(right ? only_model_right_ : only_reference_right_);
}

double Agreement::largest_difference() const {
  return images_ == 0 ? std::numeric_limits<double>::quiet_NaN() : largest_difference_;
}

double Agreement::divergence() const { return divergences_ / static_cast<double>(images_); }

Agreement::Difference Agreement::top1_difference() const {
  const auto only_model = static_cast<double>(only_model_right_);
  const auto only_reference = static_cast<double>(only_reference_right_);
  const auto n = static_cast<double>(labelled_);
  const double mean = (only_model - only_reference) / n;
  const double variance = ((only_model + only_reference) / n - mean * mean) * n / (n - 1);
  return {100 * mean, 100 * std::sqrt(variance / n)};
}

double Agreement::mean_difference() const { return differences_ / static_cast<double>(images_); }

void ConfusionCounts::add(const ScoredPicture& picture) {
  if (!picture.is_labelled()) return;
  Class& of = classes_[picture.target];
  ++of.images;
  if (picture.rank <= kTopClasses) ++of.in_top5;
  if (picture.is_right()) {
    ++of.right;
  } else {
    ++of.taken_for[picture.predicted];
  }
}

double ConfusionCounts::macro_top1() const {
  double sum = 0;
  for (const auto& [index, of] : classes_) sum += percent_of(of.right, of.images);
  return sum / static_cast<double>(classes_.size());
}

ResultTable ConfusionCounts::classes(const image::Labels& labels, std::optional<std::size_t> worst,
                                     std::int64_t least_images) const {
  std::vector<std::pair<std::int64_t, const Class*>> chosen;
  for (const auto& [index, of] : classes_)
    if (of.images >= least_images) chosen.emplace_back(index, &of);
  if (worst) {
    std::ranges::stable_sort(chosen, {}, [](const auto& entry) {
      return percent_of(entry.second->right, entry.second->images);
    });
    chosen.resize(std::min(chosen.size(), *worst));
  }
  ResultTable table({{"class", "class"},
                     {"id", "id"},
                     {"label", "label"},
                     {"images", "images"},
                     {"right", "right"},
                     {"top1", "top-1", 2},
                     {"top5", "top-5", 2},
                     {"taken_for", "taken for"},
                     {"taken_for_label", "label"},
                     {"taken_for_images", "images"}});
  for (const auto& [index, counted] : chosen) {
    const Class& of = *counted;
    const image::Label& label = labels.at(index);
    std::vector<OrderedJson> row{index,
                                 label.id,
                                 label.short_name,
                                 of.images,
                                 of.right,
                                 percent_of(of.right, of.images),
                                 percent_of(of.in_top5, of.images)};
    if (const auto most = std::ranges::max_element(of.taken_for, {},
                                                   [](const auto& taken) { return taken.second; });
        most != of.taken_for.end()) {
      row.insert(row.end(), {most->first, labels.at(most->first).short_name, most->second});
    } else {
      row.insert(row.end(), {OrderedJson(), OrderedJson(), OrderedJson()});
    }
    table.add(std::move(row));
  }
  return table;
}

double CalibrationScore::Bin::mean_confidence() const {
  return confidence / static_cast<double>(images);
}

double CalibrationScore::Bin::accuracy() const {
  return static_cast<double>(right) / static_cast<double>(images);
}

double CalibrationScore::Bin::gap() const { return std::abs(accuracy() - mean_confidence()); }

void CalibrationScore::add(const ScoredPicture& picture) {
  if (!picture.is_labelled()) return;
  // Bins are (low, high]; a confidence that is no number goes to the first.
  const double place = std::ceil(picture.confidence * static_cast<double>(kBins)) - 1;
  Bin& bin = bins_[place > 0 ? std::min(static_cast<std::size_t>(place), kBins - 1) : 0];
  ++bin.images;
  if (picture.is_right()) ++bin.right;
  bin.confidence += picture.confidence;
  ++images_;
  log_losses_ += picture.log_loss;
  briers_ += picture.brier;
}

double CalibrationScore::mean(double sum) const {
  return images_ == 0 ? std::numeric_limits<double>::quiet_NaN()
                      : sum / static_cast<double>(images_);
}

double CalibrationScore::expected_error() const {
  double sum = 0;
  for (const Bin& bin : bins_)
    if (bin.images > 0) sum += static_cast<double>(bin.images) * bin.gap();
  return mean(sum);
}

double CalibrationScore::negative_log_likelihood() const { return mean(log_losses_); }

double CalibrationScore::brier() const { return mean(briers_); }

ResultTable CalibrationScore::reliability() const {
  ResultTable table({{"low", "above", 3},
                     {"high", "up to", 3},
                     {"images", "images"},
                     {"confidence", "confidence"},
                     {"accuracy", "accuracy"}});
  constexpr auto kCount = static_cast<double>(kBins);
  for (std::size_t i = 0; i < kBins; ++i) {
    const Bin& bin = bins_[i];
    const auto at = static_cast<double>(i);
    table.add({at / kCount, (at + 1) / kCount, bin.images, bin.mean_confidence(), bin.accuracy()});
  }
  return table;
}

void Scores::add(const ScoredPicture& picture) {
  ++images_;
  accuracy_.add(picture);
  calibration_.add(picture);
  confusions_.add(picture);
  if (set_.has_real_labels) real_.add(picture, set_.pictures[picture.index].valid);
}

void Scores::add_reference(const ScoredPicture& picture, std::span<const float> logits,
                           std::span<const float> reference_logits) {
  agreement_.add(picture, score_picture(reference_logits, picture.target, picture.index),
                 compare_logits(logits, reference_logits));
}

void Scores::add_accuracy(Summary& summary) const {
  // Means over no picture, and means without labels, are no numbers.
  summary.add("top1", top1(), 2);
  if (set_.has_labels) summary.add("top1_macro", confusions_.macro_top1(), 2);
  summary.add("top5", accuracy_.top5(), 2);
  summary.add("images", images_);
  summary.add("failed", failed_);
}

void Scores::add_calibration(Summary& summary) const {
  if (set_.has_labels) {
    constexpr int kDecimals = 4;
    summary.add("nll", calibration_.negative_log_likelihood(), kDecimals);
    summary.add("brier", calibration_.brier(), kDecimals);
    summary.add("ece", calibration_.expected_error(), kDecimals);
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
  const Agreement::Difference difference = agreement_.top1_difference();
  summary.add("top1_difference", difference.mean, 2);
  summary.add("top1_difference_error", difference.error, 2);
}

}  // namespace hydrascope::app
