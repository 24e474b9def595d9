#include "model/inference/cpu/exit_score.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace hydrascope::model::inference {
namespace {

/// The two largest probabilities' difference, or 1 - H / ln K.
double certainty(std::span<const float> logits, bool by_entropy) {
  double largest = -std::numeric_limits<double>::infinity();
  double second = largest;
  for (const float logit : logits) {
    const double value = logit;
    second = std::max(second, std::min(largest, value));
    largest = std::max(largest, value);
  }
  double total = 0;
  double weighted = 0;  // sum of e^x x, x against the largest
  for (const float logit : logits) {
    const double x = logit - largest;
    const double weight = std::exp(x);
    total += weight;
    if (weight > 0) weighted += weight * x;
  }
  // NaN anywhere is in the total.
  if (!by_entropy) return (1 - std::exp(second - largest)) / total;
  if (logits.size() < 2) return total / total;
  const double entropy = std::log(total) - weighted / total;
  return 1 - entropy / std::log(static_cast<double>(logits.size()));
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0;
  double squares_a = 0;
  double squares_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += static_cast<double>(a[i]) * b[i];
    squares_a += static_cast<double>(a[i]) * a[i];
    squares_b += static_cast<double>(b[i]) * b[i];
  }
  return product / std::sqrt(squares_a * squares_b);
}

double score_of(ExitRule rule, const ExitFindings& found) {
  switch (rule) {
    case ExitRule::margin: return certainty(found.logits, false);
    case ExitRule::entropy: return certainty(found.logits, true);
    case ExitRule::saturation:
      return found.previous.empty() ? -1 : cosine(found.features, found.previous);
    case ExitRule::learned: break;
  }
  return 1 / (1 + std::exp(-static_cast<double>(found.stop)));
}

}  // namespace

float exit_score(ExitRule rule, const ExitFindings& found) {
  const double score = score_of(rule, found);
  return static_cast<float>(score > 1 ? 1 : score);  // NaN stays
}

}  // namespace hydrascope::model::inference
