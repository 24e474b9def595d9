#include "app/scores/calibration_score.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hydrascope::app {

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

double CalibrationScore::maximum_error() const {
  double largest = mean(0);
  for (const Bin& bin : bins_)
    if (bin.images > 0) largest = std::max(largest, bin.gap());
  return largest;
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

}  // namespace hydrascope::app
