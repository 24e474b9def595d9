#include "app/scores/exit_calibration.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hydrascope::app {

double binomial_tail(std::int64_t n, double p, std::int64_t k) {
  if (k >= n) return 1;
  if (k < 0) return 0;
  // ln P(X = i) from i to i + 1; the sum is taken against the largest.
  const double odds = std::log(p) - std::log1p(-p);
  double term = static_cast<double>(n) * std::log1p(-p);
  double largest = term;
  double sum = 1;
  for (std::int64_t i = 0; i < k; ++i) {
    term += std::log(static_cast<double>(n - i) / static_cast<double>(i + 1)) + odds;
    if (term > largest) {
      sum = sum * std::exp(largest - term) + 1;
      largest = term;
    } else {
      sum += std::exp(term - largest);
    }
  }
  return std::min(1.0, std::exp(largest) * sum);
}

std::size_t ExitTrial::left_at(double threshold) const {
  const auto left =
      std::ranges::find_if(exits, [&](const Exit& exit) { return exit.score > threshold; });
  return static_cast<std::size_t>(left - exits.begin());
}

ExitOutcome outcome_at(double threshold, std::span<const ExitTrial> trials, std::size_t exits) {
  ExitOutcome outcome{threshold, std::ssize(trials), 0, std::vector<std::int64_t>(exits + 1)};
  for (const ExitTrial& trial : trials) {
    const std::size_t left = trial.left_at(threshold);
    ++outcome.left[left];
    if (left < exits && !trial.exits[left].agrees) ++outcome.differing;
  }
  return outcome;
}

std::int64_t fewest_trials(double delta) {
  return static_cast<std::int64_t>(std::ceil(std::log(1 - kExitConfidence) / std::log1p(-delta)));
}

ExitOutcome calibrate_exit(std::span<const ExitTrial> trials, std::size_t exits, double delta) {
  ExitOutcome last = outcome_at(1, trials, exits);
  // The sequence must not depend on the trials: equal steps of the scores' odds, from 0.9999 to 0.05, in
  // four digits, as people pass them on.
  constexpr double kDigits = 1e4;
  constexpr int kCandidates = 122;
  constexpr double kFirst = 9.1;
  constexpr double kStep = 0.1;
  for (int i = 0; i < kCandidates; ++i) {
    const double odds = std::exp(kFirst - kStep * i);
    const double threshold = std::round(kDigits * odds / (1 + odds)) / kDigits;
    ExitOutcome next = outcome_at(threshold, trials, exits);
    if (binomial_tail(next.pictures, delta, next.differing) > 1 - kExitConfidence) break;
    last = std::move(next);
  }
  return last;
}

}  // namespace hydrascope::app
