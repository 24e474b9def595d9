#include "app/scores/found_in_views.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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

/// A class in a view that agrees on it with a neighbour. The surer one of two leads: it stands for both.
struct SeenTwice {
  FoundInViews found;
  bool leads;
};

std::vector<SeenTwice> agreements(std::span<const std::vector<float>> probabilities,
                                  std::span<const Box> places) {
  std::vector<SeenTwice> all;
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
      if (agreement >= kLeastAgreement)
        all.push_back({{static_cast<std::int64_t>(i), view, agreement, support, places[view]},
                       own[i] >= support});
    }
  }
  return all;
}

bool touch(const Box& a, const Box& b) {
  return a.left < b.left + b.width && b.left < a.left + a.width && a.top < b.top + b.height &&
         b.top < a.top + a.height;
}

Box around(const Box& a, const Box& b) {
  const std::int64_t left = std::min(a.left, b.left);
  const std::int64_t top = std::min(a.top, b.top);
  return {left, top, std::max(a.left + a.width, b.left + b.width) - left,
          std::max(a.top + a.height, b.top + b.height) - top};
}

/// By agreement, a number that those have in common that are of one class and touch, or are joined by others that do.
std::vector<std::size_t> groups_of(const std::vector<SeenTwice>& all) {
  std::vector<std::size_t> groups(all.size());
  std::iota(groups.begin(), groups.end(), std::size_t{0});
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (all[i].found.index == all[j].found.index && touch(all[i].found.place, all[j].found.place))
        std::ranges::replace(groups, std::size_t{groups[j]}, groups[i]);
  return groups;
}

}  // namespace

std::vector<FoundInViews> found_in_views(std::span<const std::vector<float>> probabilities,
                                         std::span<const Box> places) {
  std::vector<SeenTwice> all = agreements(probabilities, places);
  std::ranges::stable_sort(all, std::ranges::greater{},
                           [](const SeenTwice& one) { return one.found.probability; });
  const std::vector<std::size_t> groups = groups_of(all);
  std::vector<FoundInViews> leading;
  std::vector<FoundInViews> found;
  std::vector<std::size_t> group_of;  // of what is found
  for (std::size_t i = 0; i < all.size(); ++i) {
    const FoundInViews& one = all[i].found;
    const bool is_beside_another = std::ranges::any_of(leading, [&](const FoundInViews& earlier) {
      return earlier.index != one.index &&
             (earlier.view == one.view || are_neighbours(places[earlier.view], places[one.view]));
    });
    if (!all[i].leads || is_beside_another) continue;
    leading.push_back(one);
    const auto same = std::ranges::find(group_of, groups[i]) - group_of.begin();
    if (same < std::ssize(found)) {
      Box& place = found[static_cast<std::size_t>(same)].place;
      place = around(place, one.place);
    } else {
      found.push_back(one);
      group_of.push_back(groups[i]);
    }
  }
  return found;
}

std::vector<bool> views_that_agree(std::span<const std::vector<float>> probabilities,
                                   std::span<const Box> places) {
  std::vector<bool> agree(places.size());
  for (const auto& [one, leads] : agreements(probabilities, places))
    if (leads) agree[one.view] = true;
  return agree;
}

}  // namespace hydrascope::app
