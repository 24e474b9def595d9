#include "model/look/gate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>

namespace hydrascope::look {
namespace {

constexpr double kTemperature = 0.6;

/// A feature, standardised, and its weight.
struct Term {
  const char* name;
  double weight;
  double mean;
  double deviation;
};
/// In the order of `features_of`; docs/notes/look/gate.json has the same numbers.
constexpr std::array<Term, 14> kTerms{{
    {"maxlogp", -0.535216, -0.525168, 0.525268},
    {"margin", 0.473121, 1.464796, 1.449827},
    {"lse", 0.523706, 8.805733, 0.542437},
    {"top_logit", 0.242427, 7.591221, 1.259933},
    {"logside", -0.53625, -0.130483, 0.668755},
    {"logmass", 0.929412, -1.198441, 0.80476},
    {"logdensity", 1.595126, 1.243112, 0.918372},
    {"ring", 0.124728, -1.349748, 0.894394},
    {"inner", 0.289444, 0.472443, 0.173299},
    {"native_logp", 0.372913, -4.425759, 4.756868},
    {"native_top1", 0.089191, 0.413403, 0.493444},
    {"agree", 0.041413, -2.058745, 1.779919},
    {"agree_top", 0.193685, 0.364183, 0.286917},
    {"whole", 0.512565, 0.087032, 0.282882},
}};
using Features = std::array<double, kTerms.size()>;

/// A feature's part of a look's score.
double part_of(std::size_t term, double feature) {
  const auto& [name, weight, mean, deviation] = kTerms.at(term);
  return weight * (feature - mean) / deviation;
}

/// The opinion of a set of logits.
struct Opinion {
  std::size_t top = 0;
  double top_logit = 0;
  double margin = 0;       // to the second
  double log_sum_exp = 0;  // of the logits as they are
  std::vector<double> log_probabilities = {};
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
  opinion.top_logit = *top;
  double second = logits.size() > 1 ? std::numeric_limits<double>::lowest() : *top;
  for (auto logit = logits.begin(); logit != logits.end(); ++logit)
    if (logit != top) second = std::max(second, *logit);
  opinion.margin = *top - second;
  opinion.log_sum_exp = log_sum_exp(logits);
  std::vector<double>& log_p = opinion.log_probabilities;
  for (const double logit : logits) log_p.push_back(logit / kTemperature);
  const double normaliser = log_sum_exp(log_p);
  for (double& value : log_p) {
    value -= normaliser;
    opinion.probabilities.push_back(std::exp(value));
  }
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

/// The features of the map, which are known before a look: their terms, and their values.
constexpr std::array<std::size_t, 6> kOfMap{4, 5, 6, 7, 8, 13};
std::array<double, 6> map_features(const MapSums& sums, double pixels, const Look& look) {
  const double area = look.area.width * look.area.height;
  const Density density = density_in(sums, look.area);
  return {std::log(std::sqrt(area) / 448),
          std::log(density.mass),
          std::log(density.mass / (area / pixels)),
          std::log(density.ring + 0.02),
          density.inner,
          look.of_whole ? 1.0 : 0.0};
}

}  // namespace

void bring_forward(const AttentionMap& map, std::int64_t width, std::int64_t height,
                   std::vector<Look>& looks, std::size_t count) {
  const MapSums sums(map);
  const double pixels = static_cast<double>(width) * static_cast<double>(height);
  std::vector<double> scores;
  std::vector<std::size_t> order;
  for (const Look& look : looks) {
    const std::array<double, 6> features = map_features(sums, pixels, look);
    double score = look.of_whole ? std::numeric_limits<double>::infinity() : 0;
    for (std::size_t i = 0; i < features.size(); ++i)
      score += part_of(kOfMap.at(i), features.at(i));
    order.push_back(scores.size());
    scores.push_back(score);
  }
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return scores[i]; });
  const auto front = order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size()));
  std::sort(order.begin(), front);
  std::sort(front, order.end());
  std::vector<Look> ordered;
  for (const std::size_t i : order) ordered.push_back(looks[i]);
  looks = std::move(ordered);
}

std::vector<double> Mixture::of(std::span<const std::size_t> some) const {
  std::vector<double> mixed;
  double sum = 0;
  for (const std::size_t look : some) {
    const std::vector<double>& distribution = distributions.at(look);
    mixed.resize(distribution.size());
    for (std::size_t i = 0; i < mixed.size(); ++i) mixed[i] += weights[look] * distribution[i];
    sum += weights[look];
  }
  // Looks that the gate thinks nothing of have no weight that a number can hold. NaN stays.
  for (double& probability : mixed) probability = sum == 0 ? 0 : probability / sum;
  return mixed;
}

Mixture mix(const AttentionMap& map, std::int64_t width, std::int64_t height,
            std::span<const Look> looks, std::span<const std::span<const float>> logits,
            std::span<const float> of_pass) {
  const MapSums sums(map);
  const Opinion pass = opinion_of(of_pass);
  std::vector<Opinion> opinions;
  std::vector<double> total = pass.probabilities;
  for (const std::span<const float> each : logits) {
    const Opinion& opinion = opinions.emplace_back(opinion_of(each));
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += opinion.probabilities[i];
  }
  const auto count = static_cast<double>(looks.size());
  const double pixels = static_cast<double>(width) * static_cast<double>(height);
  const auto features_of = [&](const Opinion& opinion, const Look& look) -> Features {
    const std::size_t top = opinion.top;
    const auto [side, mass, relative, ring, inner, whole] = map_features(sums, pixels, look);
    const auto agreeing =
        std::ranges::count(opinions, top, &Opinion::top) + (pass.top == top ? 1 : 0);
    return {opinion.log_probabilities[top],
            opinion.margin,
            opinion.log_sum_exp,
            opinion.top_logit,
            side,
            mass,
            relative,
            ring,
            inner,
            pass.log_probabilities[top],
            pass.top == top ? 1.0 : 0.0,
            std::log((total[top] - opinion.probabilities[top]) / count + 1e-4),
            static_cast<double>(agreeing) / (count + 1),
            whole};
  };
  std::vector<double> scores;
  for (std::size_t i = 0; i < looks.size(); ++i) {
    const Features features = features_of(opinions[i], looks[i]);
    double score = 0;
    for (std::size_t j = 0; j < kTerms.size(); ++j) score += part_of(j, features.at(j));
    scores.push_back(score);
  }
  Mixture mixture;
  const double normaliser = log_sum_exp(scores);
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < looks.size(); ++i) {
    mixture.weights.push_back(std::exp(scores[i] - normaliser));
    mixture.distributions.push_back(std::move(opinions[i].probabilities));
    all.push_back(i);
  }
  mixture.probabilities = mixture.of(all);
  return mixture;
}

std::vector<double> heard_with(std::span<const float> of_pass, std::span<const double> of_looks) {
  std::vector<double> joined(of_looks.begin(), of_looks.end());
  const double normaliser = log_sum_exp(std::vector<double>(of_pass.begin(), of_pass.end()));
  const auto given = [&](std::size_t index) { return std::exp(of_pass[index] - normaliser); };
  const auto first = std::ranges::max_element(of_pass) - of_pass.begin();
  if (given(static_cast<std::size_t>(first)) > std::ranges::max(joined))
    for (std::size_t i = 0; i < joined.size(); ++i) joined[i] = (joined[i] + given(i)) / 2;
  return joined;
}

}  // namespace hydrascope::look
