#include "app/scores/best_views.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hydrascope::app {

void BestViews::add(std::span<const float> logits, std::size_t view) {
  if (logits.empty()) return;  // a model without a classifier
  const bool is_first = best_.empty();
  best_.resize(logits.size());
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    Best& best = best_[i];
    const double probability = std::exp(logits[i] - largest) / sum;
    if (is_first || probability > best.probability ||
        (std::isnan(best.probability) && !std::isnan(probability)))
      best = {view, probability, logits[i]};
  }
}

BestViews BestViews::of_mixture(std::span<const double> probabilities,
                                std::span<const std::size_t> views) {
  constexpr double kLeast = 1e-30;  // a number of single precision
  BestViews mixture;
  for (std::size_t i = 0; i < probabilities.size(); ++i)
    mixture.best_.push_back(
        {views[i], probabilities[i], std::log(std::max(probabilities[i], kLeast))});
  return mixture;
}

std::vector<std::int64_t> BestViews::first(std::int64_t count) const {
  std::vector<std::int64_t> order(best_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min(count, std::ssize(order));
  std::partial_sort(order.begin(), end, order.end(),
                    [&](std::int64_t a, std::int64_t b) { return is_before(a, b); });
  order.erase(end, order.end());
  return order;
}

std::int64_t BestViews::rank(std::int64_t index) const {
  std::int64_t rank = 1;
  for (std::int64_t other = 0; other < std::ssize(best_); ++other)
    if (is_before(other, index)) ++rank;
  return rank;
}

bool BestViews::is_before(std::int64_t a, std::int64_t b) const {
  const auto probability = [&](std::int64_t index) {
    const double value = best_.at(static_cast<std::size_t>(index)).probability;
    return std::isnan(value) ? -1 : value;
  };
  const double of_a = probability(a);
  const double of_b = probability(b);
  return of_a != of_b ? of_a > of_b : a < b;
}

}  // namespace hydrascope::app
