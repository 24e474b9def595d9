// How far two models say the same of the same pictures.
#pragma once

#include "app/scores/accuracy.h"
#include "app/scores/scored_picture.h"

#include <cstdint>
#include <span>

namespace hydrascope::app {

/// One picture's logits of two models, in a few numbers.
struct ComparedLogits {
  double divergence = 0;          ///< KL(reference || model) of the softmaxes, nats
  double largest_difference = 0;  ///< of two logits of a class, in magnitude
  double mean_difference = 0;     ///< in magnitude
};
/// Both of as many classes.
ComparedLogits compare_logits(std::span<const float> model, std::span<const float> reference);

/// The exact McNemar test (McNemar 1947): how probable it is, if both are right equally often, that
/// the pictures on which exactly one of them is right are shared out so unevenly; two-sided, 1
/// without such pictures.
double mcnemar_p(std::int64_t only_model, std::int64_t only_reference);

class Agreement {
 public:
  void add(const ScoredPicture& model, const ScoredPicture& reference,
           const ComparedLogits& compared);

  // NaN without pictures.
  [[nodiscard]] std::int64_t images() const noexcept { return images_; }
  [[nodiscard]] double top1() const { return percent_of(same_, images_); }  ///< the same class
  [[nodiscard]] double divergence() const;                                  ///< mean over pictures
  [[nodiscard]] double largest_difference() const noexcept { return largest_difference_; }
  [[nodiscard]] double mean_difference() const;
  /// The reference's, over the labelled pictures that both classified.
  [[nodiscard]] const Accuracy& reference() const noexcept { return reference_; }

  /// Labelled pictures by who is right.
  struct Counts {
    std::int64_t both = 0;
    std::int64_t only_model = 0;
    std::int64_t only_reference = 0;
    std::int64_t neither = 0;
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

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
  Counts counts_;
};

}  // namespace hydrascope::app
