#include "app/scores/scored_picture.h"

#include <cmath>
#include <limits>

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

ScoredPicture score_picture(const BestViews& views, std::int64_t target, std::size_t index) {
  const auto probability = [&](std::int64_t one) {
    return views.classes().at(static_cast<std::size_t>(one)).probability;
  };
  ScoredPicture scored;
  scored.index = index;
  scored.target = target;
  scored.predicted = views.first(1).at(0);
  scored.confidence = probability(scored.predicted);
  if (!scored.is_labelled()) return scored;
  scored.rank = views.rank(target);
  scored.target_probability = probability(target);
  scored.log_loss = scored.brier = std::numeric_limits<double>::quiet_NaN();
  return scored;
}

}  // namespace hydrascope::app
