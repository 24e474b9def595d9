#include "model/attention/sparse/axis_pattern.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <utility>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// Runs of positions along an axis with the same offsets between queries and keys.
struct AxisRuns {
  Tensor queries;  ///< (runs, n) positions, int64
  Tensor keys;     ///< (runs, m)
  Tensor sees;     ///< (n, m) bool
};

/// One run: `count` positions from `first`, a step apart.
struct AxisRun {
  std::int64_t first;
  std::vector<AxisKeys> keys;  ///< each position's keys
};

/// Equal in runs that are alike: the number of their keys, and each position's span of keys (first,
/// count), both in steps.
using RunShape = std::pair<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>>;

std::vector<AxisRun> runs_of(const AxisRule& rule, std::int64_t length) {
  std::vector<AxisRun> runs;
  for (std::int64_t phase = 0; phase < std::min(rule.step, length); ++phase) {
    bool is_new = true;
    bool is_uniform = true;
    for (std::int64_t position = phase; position < length; position += rule.step) {
      const AxisKeys keys = rule.keys(position, length);
      if (!is_new) {
        AxisRun& run = runs.back();
        const bool same = is_uniform && keys == run.keys.front();
        if (same || std::ssize(run.keys) < rule.run) {
          is_uniform = same;
          run.keys.push_back(keys);
          continue;
        }
      }
      runs.push_back({position, {keys}});
      is_new = false;
      is_uniform = true;
    }
  }
  return runs;
}

std::vector<AxisRuns> alike_runs(const AxisRule& rule, std::int64_t length) {
  struct Starts {
    std::vector<std::int64_t> queries, keys;
  };
  std::map<RunShape, Starts> by_shape;
  for (const AxisRun& run : runs_of(rule, length)) {
    std::int64_t begin = run.keys.front().first;
    std::int64_t end = begin;
    for (const AxisKeys& keys : run.keys) {
      begin = std::min(begin, keys.first);
      end = std::max(end, keys.first + keys.count * rule.step);
    }
    RunShape shape{(end - begin) / rule.step, {}};
    for (const AxisKeys& keys : run.keys)
      shape.second.emplace_back((keys.first - begin) / rule.step, keys.count);
    Starts& starts = by_shape[std::move(shape)];
    starts.queries.push_back(run.first);
    starts.keys.push_back(begin);
  }
  std::vector<AxisRuns> all;
  for (const auto& [shape, starts] : by_shape) {
    const auto positions = [&](const std::vector<std::int64_t>& first, std::int64_t count) {
      return at::tensor(first, at::kLong).unsqueeze(1) + at::arange(count, at::kLong) * rule.step;
    };
    const std::int64_t n = std::ssize(shape.second);
    Tensor sees = at::zeros({n, shape.first}, at::kBool);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto& [first, count] = shape.second[static_cast<std::size_t>(i)];
      sees[i].narrow(0, first, count).fill_(true);
    }
    all.push_back({positions(starts.queries, n), positions(starts.keys, shape.first), sees});
  }
  return all;
}

/// (length, length) bool.
Tensor axis_mask(const AxisRule& rule, std::int64_t length) {
  Tensor sees = at::zeros({length, length}, at::kBool);
  bool* row = sees.mutable_data_ptr<bool>();
  for (std::int64_t position = 0; position < length; ++position, row += length) {
    const AxisKeys keys = rule.keys(position, length);
    for (std::int64_t key = 0; key < keys.count; ++key) row[keys.first + key * rule.step] = true;
  }
  return sees;
}

double axis_pairs(const AxisRule& rule, std::int64_t length) {
  double pairs = 0;
  for (std::int64_t position = 0; position < length; ++position)
    pairs += static_cast<double>(rule.keys(position, length).count);
  return pairs;
}

/// Positions (a, n) of rows and (b, m) of columns -> patches (a b, n m).
Tensor patches_at(const Tensor& rows, const Tensor& columns, std::int64_t num_columns) {
  return (rows.unsqueeze(1).unsqueeze(3) * num_columns + columns.unsqueeze(0).unsqueeze(2))
      .flatten(2)
      .flatten(0, 1);
}

}  // namespace

AxisPattern::AxisPattern(AxisRule rows, AxisRule columns)
    : rows_(std::move(rows)), columns_(std::move(columns)) {}

Tensor AxisPattern::rows(const TokenGrid& grid, std::int64_t first, std::int64_t count) const {
  const Tensor patches = at::arange(first, first + count, at::kLong);
  const Tensor row = patches.div(grid.columns, "floor");
  const Tensor of_rows = axis_mask(rows_, grid.rows).index_select(0, row);
  const Tensor of_columns =
      axis_mask(columns_, grid.columns).index_select(0, patches - row * grid.columns);
  return of_rows.unsqueeze(2).logical_and(of_columns.unsqueeze(1)).flatten(1);
}

std::vector<std::vector<KeyGroups>> AxisPattern::passes(const TokenGrid& grid) const {
  const std::vector<AxisRuns> columns = alike_runs(columns_, grid.columns);
  std::vector<KeyGroups> all;
  for (const AxisRuns& r : alike_runs(rows_, grid.rows)) {
    for (const AxisRuns& c : columns) {
      KeyGroups groups{patches_at(r.queries, c.queries, grid.columns),
                       patches_at(r.keys, c.keys, grid.columns),
                       {}};
      const Tensor sees = r.sees.unsqueeze(1)
                              .unsqueeze(3)
                              .logical_and(c.sees.unsqueeze(0).unsqueeze(2))
                              .flatten(2)
                              .flatten(0, 1);
      if (!sees.all().item<bool>()) groups.sees = sees;
      all.push_back(std::move(groups));
    }
  }
  return {all};
}

double AxisPattern::num_pairs(const TokenGrid& grid) const {
  return axis_pairs(rows_, grid.rows) * axis_pairs(columns_, grid.columns);
}

}  // namespace hydrascope::model
