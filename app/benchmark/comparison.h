// Two benchmark results side by side.
#pragma once

#include "app/benchmark/row.h"
#include "app/benchmark/statistics.h"

#include <iosfwd>
#include <string>
#include <vector>

namespace hydrascope::app {

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
void write(const Comparison& comparison, Format format, std::ostream& out);

/// What got slower than `baseline` by more than `percent` of its images/s, and rows that it lacks:
/// a check that compares nothing must not pass.
std::vector<std::string> slower_rows(const BenchmarkResult& baseline, const BenchmarkResult& now,
                                     double percent);

}  // namespace hydrascope::app
