#include "app/scores/found_in_views.h"

#include <algorithm>
#include <cmath>

namespace hydrascope::app {
namespace {

constexpr double kLeastShare = 0.2;

double pixels(const Box& box) { return static_cast<double>(box.width * box.height); }

bool are_neighbours(const Box& a, const Box& b) {
  const auto shared = [](std::int64_t begin, std::int64_t size, std::int64_t other_begin,
                         std::int64_t other_size) {
    return std::max<std::int64_t>(
        0, std::min(begin + size, other_begin + other_size) - std::max(begin, other_begin));
  };
  const double both = static_cast<double>(shared(a.left, a.width, b.left, b.width) *
                                          shared(a.top, a.height, b.top, b.height));
  return both >= kLeastShare * std::min(pixels(a), pixels(b));
}

/// A class in a view, and how much it and a neighbour agree on it.
struct Candidate {
  FoundInViews found;
  double agreement;
};

}  // namespace

std::vector<FoundInViews> found_in_views(std::span<const std::vector<float>> probabilities,
                                         std::span<const Box> places) {
  std::vector<Candidate> candidates;
  for (std::size_t view = 0; view < places.size(); ++view) {
    const std::vector<float>& own = probabilities[view];
    std::vector<std::size_t> neighbours;
    for (std::size_t other = 0; other < places.size(); ++other)
      if (other != view && are_neighbours(places[view], places[other])) neighbours.push_back(other);
    for (std::size_t i = 0; i < own.size(); ++i) {
      // Less would need a support above one.
      if (!(own[i] >= kLeastAgreement * kLeastAgreement)) continue;
      double support = 0;
      for (const std::size_t other : neighbours)
        support = std::max(support, double{probabilities[other][i]});
      const double agreement = std::sqrt(own[i] * support);
      // The surer one of two stands for both.
      if (agreement >= kLeastAgreement && own[i] >= support)
        candidates.push_back({{static_cast<std::int64_t>(i), view, own[i], support}, agreement});
    }
  }
  std::ranges::stable_sort(candidates, std::ranges::greater{}, &Candidate::agreement);
  std::vector<FoundInViews> found;
  for (const auto& [candidate, agreement] : candidates) {
    const Box& place = places[candidate.view];
    const bool is_taken = std::ranges::any_of(found, [&](const FoundInViews& earlier) {
      return earlier.view == candidate.view || are_neighbours(places[earlier.view], place);
    });
    if (!is_taken) found.push_back(candidate);
  }
  return found;
}

}  // namespace hydrascope::app
