#include "model/zoom/gate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>

namespace hydrascope::zoom {
namespace {

constexpr double kTemperature = 0.6;

/// A feature, standardised, and its weight.
struct Term {
  const char* name;
  double weight;
  double mean;
  double deviation;
};
/// In the order of `features_of`; docs/notes/zoom/gate.json has the same numbers.
constexpr std::array<Term, 10> kTerms{{
    {"maxlogp", 0.303978, -0.603241, 0.538176},
    {"margin", 0.613838, 1.226202, 1.212823},
    {"logside", -0.328185, -0.124009, 0.67607},
    {"logmass", 0.823906, -1.461787, 0.877191},
    {"logdensity", 1.555501, 1.093855, 0.749903},
    {"ring", -0.825596, -1.11585, 0.831172},
    {"inner", -0.562942, 0.449197, 0.135269},
    {"agree", -0.159216, -2.376451, 1.735967},
    {"agree_top", -0.092462, 0.300289, 0.251828},
    {"whole", -0.167662, 0.086957, 0.281771},
}};
using Features = std::array<double, kTerms.size()>;

/// A feature's part of a view's score.
double part_of(std::size_t term, double feature) {
  const auto& [name, weight, mean, deviation] = kTerms.at(term);
  return weight * (feature - mean) / deviation;
}

/// The opinion of a set of logits.
struct Opinion {
  std::size_t top = 0;
  double margin = 0;           // to the second
  double log_probability = 0;  // of the first
  std::vector<double> probabilities = {};
};

double log_sum_exp(std::span<const double> values) {
  const double largest = *std::ranges::max_element(values);
  double sum = 0;
  for (const double value : values) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

Opinion opinion_of(std::span<const float> given) {
  const std::vector<double> logits(given.begin(), given.end());
  const auto top = std::ranges::max_element(logits);
  Opinion opinion;
  opinion.top = static_cast<std::size_t>(top - logits.begin());
  double second = logits.size() > 1 ? std::numeric_limits<double>::lowest() : *top;
  for (auto logit = logits.begin(); logit != logits.end(); ++logit)
    if (logit != top) second = std::max(second, *logit);
  opinion.margin = *top - second;
  std::vector<double> log_p;
  for (const double logit : logits) log_p.push_back(logit / kTemperature);
  const double normaliser = log_sum_exp(log_p);
  for (const double value : log_p) opinion.probabilities.push_back(std::exp(value - normaliser));
  opinion.log_probability = log_p[opinion.top] - normaliser;
  return opinion;
}

/// The map in a box and around it.
struct Density {
  double mass;   // of the map
  double ring;   // beside the mass, a fifth of the box's edges wide
  double inner;  // of the mass, in the middle three fifths of each edge
};

Density density_in(const MapSums& sums, const Area& box) {
  const auto [left, top, width, height] = box;
  const double mass = sums.within(box) + 1e-4;
  const double wider = sums.within({left - width / 5, top - height / 5, width * 1.4, height * 1.4});
  const double inner = sums.within({left + width / 5, top + height / 5, width * 0.6, height * 0.6});
  return {mass, std::max(wider - mass, 0.0) / mass, inner / mass};
}

/// The features of the map, which are known before a view: their terms, and their values.
constexpr std::array<std::size_t, 6> kOfMap{2, 3, 4, 5, 6, 9};
std::array<double, 6> map_features(const MapSums& sums, double pixels, const View& view) {
  const double area = view.area.width * view.area.height;
  const Density density = density_in(sums, view.area);
  return {std::log(std::sqrt(area) / 448),
          std::log(density.mass),
          std::log(density.mass / (area / pixels)),
          std::log(density.ring + 0.02),
          density.inner,
          view.of_whole ? 1.0 : 0.0};
}

}  // namespace

void bring_forward(const AttentionMap& map, std::int64_t width, std::int64_t height,
                   std::vector<View>& views, std::size_t count) {
  const MapSums sums(map);
  const double pixels = static_cast<double>(width) * static_cast<double>(height);
  std::vector<double> scores;
  std::vector<std::size_t> order;
  for (const View& view : views) {
    const std::array<double, 6> features = map_features(sums, pixels, view);
    double score = view.of_whole ? std::numeric_limits<double>::infinity() : 0;
    for (std::size_t i = 0; i < features.size(); ++i)
      score += part_of(kOfMap.at(i), features.at(i));
    order.push_back(scores.size());
    scores.push_back(score);
  }
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return scores[i]; });
  const auto front = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::sort(order.begin(), front);
  std::sort(front, order.end());
  std::vector<View> ordered;
  for (const std::size_t i : order) ordered.push_back(views[i]);
  views = std::move(ordered);
}

Mixture mix(const AttentionMap& map, std::int64_t width, std::int64_t height,
            std::span<const View> views, std::span<const std::span<const float>> logits) {
  const MapSums sums(map);
  std::vector<Opinion> opinions;
  std::vector<double> total(logits.front().size());
  for (const std::span<const float> each : logits) {
    const Opinion& opinion = opinions.emplace_back(opinion_of(each));
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += opinion.probabilities[i];
  }
  const auto count = static_cast<double>(views.size());
  const double pixels = static_cast<double>(width) * static_cast<double>(height);
  const auto features_of = [&](const Opinion& opinion, const View& view) -> Features {
    const std::size_t top = opinion.top;
    const auto [side, mass, relative, ring, inner, whole] = map_features(sums, pixels, view);
    const auto agreeing = std::ranges::count(opinions, top, &Opinion::top);
    return {opinion.log_probability,
            opinion.margin,
            side,
            mass,
            relative,
            ring,
            inner,
            std::log((total[top] - opinion.probabilities[top]) / count + 1e-4),
            static_cast<double>(agreeing) / count,
            whole};
  };
  std::vector<double> scores;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const Features features = features_of(opinions[i], views[i]);
    double score = 0;
    for (std::size_t j = 0; j < kTerms.size(); ++j) score += part_of(j, features.at(j));
    scores.push_back(score);
  }
  Mixture mixture;
  const double normaliser = log_sum_exp(scores);
  mixture.probabilities.resize(total.size());
  for (std::size_t i = 0; i < views.size(); ++i) {
    const double weight = mixture.weights.emplace_back(std::exp(scores[i] - normaliser));
    const std::vector<double>& distribution =
        mixture.distributions.emplace_back(std::move(opinions[i].probabilities));
    for (std::size_t c = 0; c < distribution.size(); ++c)
      mixture.probabilities[c] += weight * distribution[c];
  }
  return mixture;
}

std::optional<Point> densest_point(std::span<const Area> areas, std::span<const double> votes) {
  std::vector<double> x;
  std::vector<double> y;
  for (const Area& area : areas) {
    x.insert(x.end(), {area.left, area.left + area.width});
    y.insert(y.end(), {area.top, area.top + area.height});
  }
  std::ranges::sort(x);
  std::ranges::sort(y);
  std::optional<Point> found;
  double most = 0;
  for (std::size_t i = 1; i < y.size(); ++i) {
    for (std::size_t j = 1; j < x.size(); ++j) {
      if (!(x[j] > x[j - 1] && y[i] > y[i - 1])) continue;
      const Point middle{(x[j - 1] + x[j]) / 2, (y[i - 1] + y[i]) / 2};
      double density = 0;
      for (std::size_t k = 0; k < areas.size(); ++k) {
        const auto& [left, top, width, height] = areas[k];
        if (middle.x > left && middle.x < left + width && middle.y > top && middle.y < top + height)
          density += votes[k] / (width * height);
      }
      if (density > most) found = middle;
      most = std::max(most, density);
    }
  }
  return found;
}

}  // namespace hydrascope::zoom
