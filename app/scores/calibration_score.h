// Whether probabilities are as often right as they say (Guo et al. 2017, On Calibration of Modern
// Neural Networks, arXiv 1706.04599).
#pragma once

#include "app/results/table.h"
#include "app/scores/scored_picture.h"

#include <array>
#include <cstdint>

namespace hydrascope::app {

class CalibrationScore {
 public:
  /// Pictures without a label are left out.
  void add(const ScoredPicture& picture);

  // NaN without pictures.
  /// Mean over the pictures of |accuracy - mean confidence| of their bin: 15 bins of equal width of
  /// the predicted class's probability.
  [[nodiscard]] double expected_error() const;
  /// The largest of the bins that hold pictures.
  [[nodiscard]] double maximum_error() const;
  /// Mean -ln of the target's probability.
  [[nodiscard]] double negative_log_likelihood() const;
  /// Mean over the pictures of the squared distance of all probabilities from one at the target (0
  /// to 2; Brier 1950).
  [[nodiscard]] double brier() const;
  /// One row per bin: low, high, images, confidence, accuracy.
  [[nodiscard]] ResultTable reliability() const;

 private:
  struct Bin {
    std::int64_t images = 0;
    std::int64_t right = 0;
    double confidence = 0;  ///< a sum
    [[nodiscard]] double mean_confidence() const;
    [[nodiscard]] double accuracy() const;
    [[nodiscard]] double gap() const;
  };
  static constexpr std::size_t kBins = 15;
  [[nodiscard]] double mean(double sum) const;

  std::array<Bin, kBins> bins_{};
  std::int64_t images_ = 0;
  double log_losses_ = 0;
  double briers_ = 0;
};

}  // namespace hydrascope::app
