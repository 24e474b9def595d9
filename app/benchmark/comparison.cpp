#include "app/benchmark/comparison.h"

#include "app/results/json.h"
#include "app/results/table.h"
#include "kernels/error.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>
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
    const std::string there = other == b.header.end() ? "nothing" : other->second;
    if (there != value)
      comparison.header_differences.push_back(key + ": " + value + " against " + there);
  }
  return comparison;
}

namespace {

double memory_ratio(const ComparedRow& row) {
  return static_cast<double>(row.b.peak_memory_bytes) /
         static_cast<double>(std::max<std::int64_t>(1, row.a.peak_memory_bytes));
}

OrderedJson json_of(const Comparison& comparison) {
  OrderedJson rows = OrderedJson::array();
  for (const ComparedRow& row : comparison.rows) {
    rows.push_back({{"experiment", row.a.key()},
                    {"images_per_second_a", row.a.images_per_second},
                    {"images_per_second_b", row.b.images_per_second},
                    {"ratio", row.speed.value},
                    {"ratio_low", row.speed.low},
                    {"ratio_high", row.speed.high},
                    {"memory_ratio", memory_ratio(row)}});
  }
  return {{"schema", 1},
          {"rows", rows},
          {"only_a", comparison.only_a},
          {"only_b", comparison.only_b},
          {"header_differences", comparison.header_differences}};
}

/// The members of a row of JSON.
ResultTable table_of(const Comparison& comparison) {
  ResultTable table({{"experiment", ""},
                     {"images_per_second_a", ""},
                     {"images_per_second_b", ""},
                     {"ratio", ""},
                     {"ratio_low", ""},
                     {"ratio_high", ""},
                     {"memory_ratio", ""}});
  for (const ComparedRow& row : comparison.rows)
    table.add({row.a.key(), row.a.images_per_second, row.b.images_per_second, row.speed.value,
               row.speed.low, row.speed.high, memory_ratio(row)});
  return table;
}

void write_for_people(const Comparison& comparison, bool markdown, std::ostream& out) {
  const std::string between = markdown ? " | " : "  ";
  const std::string edge = markdown ? "| " : "";
  const std::string end = markdown ? " |\n" : "\n";
  out << edge << "images/s A" << between << "images/s B" << between << "B/A" << between
      << "95 % interval" << between << "experiment" << end;
  if (markdown) out << "|---:|---:|---:|---|---|\n";
  for (const ComparedRow& row : comparison.rows) {
    out << edge << fixed(row.a.images_per_second, 2) << between << fixed(row.b.images_per_second, 2)
        << between << fixed(row.speed.value, 3) << between << fixed(row.speed.low, 3) << " to "
        << fixed(row.speed.high, 3) << between << row.a.key() << end;
  }
}

}  // namespace

void write(const Comparison& comparison, Format format, std::ostream& out, std::ostream& notes) {
  if (is_json(format)) {
    out << json_of(comparison).dump(format == Format::json ? 1 : -1) << '\n';
  } else {
    if (is_rows(format))
      table_of(comparison).write(format, out);
    else
      write_for_people(comparison, format == Format::md, out);
    std::ostream& beside = is_rows(format) ? notes : out;
    for (const std::string& key : comparison.only_a) beside << "only in A: " << key << '\n';
    for (const std::string& key : comparison.only_b) beside << "only in B: " << key << '\n';
    for (const std::string& line : comparison.header_differences)
      beside << "differs: " << line << '\n';
  }
  flush_results(out);
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
