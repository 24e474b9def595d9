#include "app/scores/class_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hydrascope::app {

ClassScores::ClassScores(std::span<const float> logits) {
  if (logits.empty()) return;
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  for (const float logit : logits) scores_.push_back({std::exp(logit - largest) / sum, logit});
}

ClassScores ClassScores::of_mixture(std::span<const double> probabilities) {
  constexpr double kLeast = 1e-30;  // a number of single precision
  ClassScores mixture;
  for (const double probability : probabilities)
    mixture.scores_.push_back({probability, std::log(std::max(probability, kLeast))});
  return mixture;
}

std::vector<std::int64_t> ClassScores::first(std::int64_t count) const {
  std::vector<std::int64_t> order(scores_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min(count, std::ssize(order));
  std::partial_sort(order.begin(), end, order.end(),
                    [&](std::int64_t a, std::int64_t b) { return is_before(a, b); });
  order.erase(end, order.end());
  return order;
}

std::int64_t ClassScores::rank(std::int64_t index) const {
  std::int64_t rank = 1;
  for (std::int64_t other = 0; other < std::ssize(scores_); ++other)
    if (is_before(other, index)) ++rank;
  return rank;
}

bool ClassScores::is_before(std::int64_t a, std::int64_t b) const {
  const auto probability = [&](std::int64_t index) {
    const double value = scores_.at(static_cast<std::size_t>(index)).probability;
    return std::isnan(value) ? -1 : value;
  };
  const double of_a = probability(a);
  const double of_b = probability(b);
  return of_a != of_b ? of_a > of_b : a < b;
}

}  // namespace hydrascope::app
