// The answer of several views of a picture together: for every class the view that it is most probable in,
// which is where it was found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hydrascope::app {

class BestViews {
 public:
  struct Best {
    std::size_t view = 0;
    double probability = 0;  ///< softmax over all classes in that view
    double logit = 0;
  };

  /// The logits (num_classes) of one more view, of number `view`. The first of equal probabilities
  /// stays; one that is no number gives way to any that is.
  void add(std::span<const float> logits, std::size_t view);

  /// Views that answer together: the classes' probabilities, which add up to one, and for each the view
  /// that says most of it. Logits are logarithms of the probabilities.
  static BestViews of_mixture(std::span<const double> probabilities,
                              std::span<const std::size_t> views);

  /// By class; empty without a view. The probabilities of `add` come from different views:
  /// they do not add up to one.
  [[nodiscard]] const std::vector<Best>& classes() const noexcept { return best_; }
  /// The `count` most probable classes, of equal ones the lower first; all where there are fewer. A
  /// class that is among them after the last view has been since its best view.
  [[nodiscard]] std::vector<std::int64_t> first(std::int64_t count) const;
  /// The place of a class in that order, from 1.
  [[nodiscard]] std::int64_t rank(std::int64_t index) const;

 private:
  [[nodiscard]] bool is_before(std::int64_t a, std::int64_t b) const;

  std::vector<Best> best_;
};

}  // namespace hydrascope::app
