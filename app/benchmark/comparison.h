// Two benchmark results side by side.
#pragma once

#include "app/benchmark/row.h"

#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

// Summaries of repeated timings.

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

/// One experiment that both results hold.
struct ComparedRow {
  BenchmarkRow a;
  BenchmarkRow b;
  Ratio speed;  ///< time of a / time of b: above 1, b is faster
};

struct Comparison {
  std::vector<ComparedRow> rows;
  std::vector<std::string> only_a;  ///< keys of rows without a partner
  std::vector<std::string> only_b;
  std::vector<std::string> header_differences;  ///< "cpu: X against Y"
};

Comparison compare(const BenchmarkResult& a, const BenchmarkResult& b);
/// The rows; notes say what has no partner, and where the machines differ.
Report report_of(const Comparison& comparison);

/// Rows that got slower than `baseline` by more than `percent` of its images/s, and rows that it lacks:
/// a check that compares nothing must not pass.
std::vector<std::string> slower_rows(const BenchmarkResult& baseline, const BenchmarkResult& now,
                                     double percent);

}  // namespace hydrascope::app
