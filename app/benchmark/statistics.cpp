#include "app/benchmark/statistics.h"

#include "kernels/error.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace hydrascope::app {
namespace {

double percentile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = position - static_cast<double>(below);
  return sorted[below] * (1 - share) + sorted[above] * share;
}

double median(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  return percentile(sorted, 0.5);
}

}  // namespace

TimingSummary summarise(std::span<const double> samples) {
  if (samples.empty()) throw Error(ErrorCode::internal, "no samples to summarise");
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  TimingSummary summary;
  summary.p50 = percentile(sorted, 0.50);
  summary.p90 = percentile(sorted, 0.90);
  summary.p99 = percentile(sorted, 0.99);
  const auto count = static_cast<double>(sorted.size());
  summary.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  double squares = 0;
  for (const double sample : sorted) squares += (sample - summary.mean) * (sample - summary.mean);
  summary.stddev = sorted.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
  return summary;
}

Ratio ratio_of(const Measured& a, const Measured& b) {
  const auto relative_variance = [](const Measured& m) {
    const double relative = m.stddev / m.mean;
    return relative * relative / std::max(1.0, m.count);
  };
  constexpr double kNormal95 = 1.959964;
  const double value = a.mean / b.mean;
  const double half = kNormal95 * std::sqrt(relative_variance(a) + relative_variance(b));
  return {value, value * std::exp(-half), value * std::exp(half)};
}

bool settled(std::span<const double> samples, std::size_t window) {
  if (samples.size() < 2 * window) return false;
  const double last = median(samples.last(window));
  const double before = median(samples.subspan(samples.size() - 2 * window, window));
  constexpr double kTolerance = 0.02;
  return std::abs(last - before) <= kTolerance * before;
}

}  // namespace hydrascope::app
