// Summaries of repeated timings.
#pragma once

#include <span>
#include <string>

namespace hydrascope::app {

/// Summarises at least one sample. Percentiles interpolate linearly between order statistics.
struct TimingSummary {
  double p50 = 0, p90 = 0, p99 = 0;
  double mean = 0;
  double stddev = 0;  ///< of a sample (n - 1); 0 for a single one
};
TimingSummary summarise(std::span<const double> samples);

/// A quantity measured several times.
struct Measured {
  double mean = 0;
  double stddev = 0;
  double count = 1;
};

/// a.mean / b.mean with its 95 % interval: normal on the logarithm, standard errors by the delta
/// method.
struct Ratio {
  double value = 1;
  double low = 1;
  double high = 1;
};
Ratio ratio_of(const Measured& a, const Measured& b);

/// Have the timings of a warm-up settled? The median of the last `window` differs by less than 2 %
/// from that of the `window` before.
bool settled(std::span<const double> samples, std::size_t window = 3);

}  // namespace hydrascope::app
