#include "app/benchmark/comparison.h"

#include "app/benchmark/ceiling.h"
#include "kernels/error.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>
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

namespace {

Measured measured(const BenchmarkRow& row) {
  return {row.ms_mean, row.ms_stddev, static_cast<double>(row.iterations)};
}

const BenchmarkRow* find(const BenchmarkResult& result, const std::string& key) {
  const auto found = std::ranges::find(result.rows, key, &BenchmarkRow::key);
  return found == result.rows.end() ? nullptr : &*found;
}

}  // namespace

Comparison compare(const BenchmarkResult& a, const BenchmarkResult& b) {
  Comparison comparison;
  for (const BenchmarkRow& row : a.rows) {
    if (const BenchmarkRow* partner = find(b, row.key())) {
      comparison.rows.push_back({row, *partner, ratio_of(measured(row), measured(*partner))});
    } else {
      comparison.only_a.push_back(row.key());
    }
  }
  for (const BenchmarkRow& row : b.rows) {
    if (find(a, row.key()) == nullptr) comparison.only_b.push_back(row.key());
  }
  for (const auto& [key, value] : a.header) {
    const auto other = b.header.find(key);
    if (other == b.header.end()) {
      comparison.header_differences.push_back(key + ": " + header_text(value) + " against nothing");
    } else if (value != other->second && !are_alike(value, other->second)) {
      comparison.header_differences.push_back(key + ": " + header_text(value) + " against " +
                                              header_text(other->second));
    }
  }
  return comparison;
}

namespace {

double memory_ratio(const ComparedRow& row) {
  return static_cast<double>(row.b.peak_memory_bytes) /
         static_cast<double>(std::max<std::int64_t>(1, row.a.peak_memory_bytes));
}

}  // namespace

Report report_of(const Comparison& comparison) {
  Report report("hydrascope benchmark --compare");
  ResultTable table({{"experiment", "experiment"},
                     {"images_per_second_a", "images/s A", 2},
                     {"images_per_second_b", "images/s B", 2},
                     {"ratio", "B/A", 3},
                     {"ratio_low", "95 % from", 3},
                     {"ratio_high", "to", 3},
                     {"memory_ratio", "memory B/A", 3}});
  for (const ComparedRow& row : comparison.rows)
    table.add({row.a.key(), row.a.images_per_second, row.b.images_per_second, row.speed.value,
               row.speed.low, row.speed.high, memory_ratio(row)});
  report.add_table("rows", "", std::move(table), kMain);
  for (const auto& [key, words, list] :
       {std::tuple("only_a", "only in A: ", &comparison.only_a),
        std::tuple("only_b", "only in B: ", &comparison.only_b),
        std::tuple("header_differences", "differs: ", &comparison.header_differences)}) {
    report.summary.add(key, *list, 0, kInJson);
    for (const std::string& each : *list) report.notes.push_back(words + each);
  }
  return report;
}

std::vector<std::string> slower_rows(const BenchmarkResult& baseline, const BenchmarkResult& now,
                                     double percent) {
  std::vector<std::string> slower;
  for (const BenchmarkRow& row : now.rows) {
    const BenchmarkRow* before = find(baseline, row.key());
    if (before == nullptr) {
      slower.push_back(row.key() + ": not in the baseline");
    } else if (row.images_per_second < before->images_per_second * (1 - percent / 100)) {
      slower.push_back(row.key() + ": " + fixed(row.images_per_second, 2) + " images/s, was " +
                       fixed(before->images_per_second, 2));
    }
  }
  return slower;
}

}  // namespace hydrascope::app
