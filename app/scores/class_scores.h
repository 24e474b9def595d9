// The answer about a picture: the scores of all classes, and their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hydrascope::app {

class ClassScores {
 public:
  struct Score {
    double probability = 0;  ///< all classes' add up to one
    double logit = 0;
  };

  ClassScores() = default;
  /// The softmax of the logits (num_classes); none of a model without a classifier.
  explicit ClassScores(std::span<const float> logits);
  /// The classes' probabilities in a mixture of views. Logits are logarithms of the probabilities.
  static ClassScores of_mixture(std::span<const double> probabilities);

  /// By class.
  [[nodiscard]] const std::vector<Score>& classes() const noexcept { return scores_; }
  /// The `count` most probable classes, of equal ones the lower first; all where there are fewer.
  [[nodiscard]] std::vector<std::int64_t> first(std::int64_t count) const;
  /// The place of a class in that order, from 1.
  [[nodiscard]] std::int64_t rank(std::int64_t index) const;

 private:
  [[nodiscard]] bool is_before(std::int64_t a, std::int64_t b) const;

  std::vector<Score> scores_;
};

}  // namespace hydrascope::app
