// All scores of an evaluation, fed with one picture after the other, and the lines that they add to
// the summary.
#pragma once

#include "app/pictures/labelled_set.h"
#include "app/results/table.h"
#include "model/image/labels.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>

namespace hydrascope::app {

// The part of one picture in the scores of a labelled set: a few numbers instead of its logits.

/// The k of "top-k accuracy".
constexpr std::int64_t kTopClasses = 5;

struct ScoredPicture {
  std::size_t index = 0;  ///< in the set
  std::int64_t target = kNoClass;
  std::int64_t predicted = 0;
  double confidence = 0;  ///< probability of the predicted class
  // Only labelled pictures have these.
  std::int64_t rank = 0;          ///< of the target, from 1; ties go to the lower class
  double target_probability = 0;  ///< softmax over all classes
  double log_loss = 0;            ///< -ln of it
  double brier = 0;               ///< sum over the classes of (probability - [is the target])^2

  [[nodiscard]] bool is_labelled() const noexcept { return target != kNoClass; }
  [[nodiscard]] bool is_right() const noexcept { return is_labelled() && rank == 1; }
};

/// `target` is a class of the logits, or kNoClass.
ScoredPicture score_picture(std::span<const float> logits, std::int64_t target, std::size_t index);

// Top-1 and top-5 of a labelled set, by one label and by several.

/// 100 count / all; NaN of nothing.
inline double percent_of(std::int64_t count, std::int64_t all) {
  return all == 0 ? std::numeric_limits<double>::quiet_NaN()
                  : 100.0 * static_cast<double>(count) / static_cast<double>(all);
}

class Accuracy {
 public:
  void add(const ScoredPicture& picture) {
    if (!picture.is_labelled()) return;
    ++images_;
    if (picture.rank == 1) ++top1_;
    if (picture.rank <= kTopClasses) ++top5_;
  }
  [[nodiscard]] std::int64_t images() const noexcept { return images_; }
  [[nodiscard]] double top1() const { return percent_of(top1_, images_); }
  [[nodiscard]] double top5() const { return percent_of(top5_, images_); }

 private:
  std::int64_t images_ = 0;
  std::int64_t top1_ = 0;
  std::int64_t top5_ = 0;
};

/// Top-1 over labels of which several may be valid (Beyer et al. 2020, Are we done with ImageNet?,
/// arXiv 2006.07159): right where the predicted class is one of them. A picture without a valid
/// label counts nowhere.
class RealAccuracy {
 public:
  void add(const ScoredPicture& picture, std::span<const std::int64_t> valid) {
    if (valid.empty()) return;
    ++images_;
    if (std::ranges::find(valid, picture.predicted) != valid.end()) ++right_;
  }
  [[nodiscard]] std::int64_t images() const noexcept { return images_; }
  [[nodiscard]] double top1() const { return percent_of(right_, images_); }

 private:
  std::int64_t images_ = 0;
  std::int64_t right_ = 0;
};

// How far two models say the same of the same pictures.

/// One picture's logits of two models, in a few numbers.
struct ComparedLogits {
  double divergence = 0;          ///< KL(reference || model) of the softmaxes, nats
  double largest_difference = 0;  ///< of two logits of a class, in magnitude
  double mean_difference = 0;     ///< in magnitude
};
/// Both of as many classes.
ComparedLogits compare_logits(std::span<const float> model, std::span<const float> reference);

class Agreement {
 public:
  void add(const ScoredPicture& model, const ScoredPicture& reference,
           const ComparedLogits& compared);

  // NaN without pictures.
  [[nodiscard]] std::int64_t images() const noexcept { return images_; }
  [[nodiscard]] double top1() const { return percent_of(same_, images_); }  ///< the same class
  [[nodiscard]] double divergence() const;                                  ///< mean over pictures
  [[nodiscard]] double largest_difference() const;
  [[nodiscard]] double mean_difference() const;
  /// The reference's, over the labelled pictures that both classified.
  [[nodiscard]] const Accuracy& reference() const noexcept { return reference_; }

  /// The model's top-1 minus the reference's, in percentage points, and its standard error over the
  /// pictures, which both saw: NaN below two pictures.
  struct Difference {
    double mean = 0;
    double error = 0;
  };
  [[nodiscard]] Difference top1_difference() const;

 private:
  std::int64_t images_ = 0;
  std::int64_t same_ = 0;
  double divergences_ = 0;
  double largest_difference_ = 0;
  double differences_ = 0;
  Accuracy reference_;
  // Labelled pictures, and those that one of both has right.
  std::int64_t labelled_ = 0;
  std::int64_t only_model_right_ = 0;
  std::int64_t only_reference_right_ = 0;
};

// Which classes are taken for which.

class ConfusionCounts {
 public:
  /// Pictures without a label are left out.
  void add(const ScoredPicture& picture);

  /// The mean of the top-1 of the classes that have pictures, in %; NaN without any.
  [[nodiscard]] double macro_top1() const;
  /// One row per class that has pictures, by its index: class, id, label, images, right, top1, top5
  /// and the wrong class that it is most often taken for (the lower of two as frequent). With
  /// `worst` so many of the lowest top-1, lowest first, of classes that have `least_images`.
  [[nodiscard]] ResultTable classes(const image::Labels& labels,
                                    std::optional<std::size_t> worst = std::nullopt,
                                    std::int64_t least_images = 1) const;

 private:
  struct Class {
    std::int64_t images = 0;
    std::int64_t right = 0;
    std::int64_t in_top5 = 0;
    std::map<std::int64_t, std::int64_t> taken_for;  ///< wrong class -> pictures
  };
  std::map<std::int64_t, Class> classes_;
};

// Whether probabilities are as often right as they say (Guo et al. 2017, On Calibration of Modern
// Neural Networks, arXiv 1706.04599).

class CalibrationScore {
 public:
  /// Pictures without a label are left out.
  void add(const ScoredPicture& picture);

  // NaN without pictures.
  /// Mean over the pictures of |accuracy - mean confidence| of their bin: 15 bins of equal width of
  /// the predicted class's probability.
  [[nodiscard]] double expected_error() const;
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
  [[nodiscard]] std::int64_t images() const noexcept { return images_; }
  /// NaN where no labelled picture was classified.
  [[nodiscard]] double top1() const { return accuracy_.top1(); }
  [[nodiscard]] const CalibrationScore& calibration() const noexcept { return calibration_; }
  [[nodiscard]] const ConfusionCounts& confusions() const noexcept { return confusions_; }

  /// top1, top1_macro (of labelled sets), top5, images, failed.
  void add_accuracy(Summary& summary) const;
  /// nll, brier, ece; top1_real, images_real.
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
