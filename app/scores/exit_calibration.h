// A threshold for early exits with a guarantee: learn then test (Angelopoulos et al. 2021, arXiv 2110.01052), as
// CALM calibrates (Schuster et al. 2022, arXiv 2207.07061), with exact binomial tails. Pictures need no labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hydrascope::app {

/// P(X <= k) of X binomial, n trials with probability p in (0, 1). Relative error about 1e-10.
double binomial_tail(std::int64_t n, double p, std::int64_t k);

/// A picture at the exits of a model, in their order.
struct ExitTrial {
  struct Exit {
    double score = 0;
    bool agrees = false;  ///< its class is the whole model's
  };
  std::vector<Exit> exits;

  /// The first exit with a score above the threshold, or the number of exits: the picture stays.
  [[nodiscard]] std::size_t left_at(double threshold) const;
};

/// The outcome at one threshold.
struct ExitOutcome {
  double threshold = 1;
  std::int64_t pictures = 0;
  std::int64_t differing = 0;      ///< left with another class than the whole model's
  std::vector<std::int64_t> left;  ///< pictures by exit; the last number: stayed
};
ExitOutcome outcome_at(double threshold, std::span<const ExitTrial> trials, std::size_t exits);

inline constexpr double kExitConfidence = 0.95;

/// Fewest pictures on which no difference at all shows that at most the share `delta` differs.
std::int64_t fewest_trials(double delta);

/// The loosest threshold of a fixed sequence, from strict to loose, up to which every null hypothesis "more
/// than the share `delta` of all pictures leave with another class" is rejected: its binomial tail is at most
/// 1 - kExitConfidence. With that confidence over the draw of `trials` at most `delta` of pictures of the
/// same kind differ. Threshold 1, at which none leaves, if there are fewer than `fewest_trials`.
ExitOutcome calibrate_exit(std::span<const ExitTrial> trials, std::size_t exits, double delta);

}  // namespace hydrascope::app
