#include "model/zoom/views.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <set>

namespace hydrascope::zoom {
namespace {

constexpr double kMostOverlap = 0.3;  // of two views of a side
constexpr std::array<std::int64_t, 6> kSides{160, 224, 320, 448, 640, 896};
constexpr std::array<std::size_t, 6> kCounts{3, 3, 3, 2, 2, 1};

/// Means over 3x3 cells; the outer cells are repeated outside of the map.
AttentionMap smoothed(const AttentionMap& map) {
  AttentionMap mean = map;
  const auto at = [&](std::int64_t row, std::int64_t column) {
    row = std::clamp<std::int64_t>(row, 0, map.rows - 1);
    column = std::clamp<std::int64_t>(column, 0, map.columns - 1);
    return map.values[static_cast<std::size_t>(row * map.columns + column)];
  };
  for (std::int64_t row = 0; row < map.rows; ++row) {
    for (std::int64_t column = 0; column < map.columns; ++column) {
      double sum = 0;
      for (std::int64_t i = -1; i <= 1; ++i)
        for (std::int64_t j = -1; j <= 1; ++j) sum += at(row + i, column + j);
      mean.values[static_cast<std::size_t>(row * map.columns + column)] = sum / 9;
    }
  }
  return mean;
}

std::size_t peak_of(const AttentionMap& map) {
  return static_cast<std::size_t>(std::ranges::max_element(map.values) - map.values.begin());
}

/// The boxes of a side with the most of the map.
std::vector<Area> densest(const MapSums& sums, std::int64_t side, std::size_t count,
                          std::int64_t cell, std::int64_t width, std::int64_t height) {
  const std::int64_t step = std::max(cell, side / 14);
  const std::int64_t box_width = std::min(side, width);
  const std::int64_t box_height = std::min(side, height);
  const auto starts = [&](std::int64_t last) {
    std::set<std::int64_t> all{last};
    for (std::int64_t start = 0; start <= last; start += step) all.insert(start);
    return all;
  };
  struct Candidate {
    Area area;
    double sum;
  };
  std::vector<Candidate> candidates;
  for (const std::int64_t top : starts(height - box_height)) {
    for (const std::int64_t left : starts(width - box_width)) {
      const Area area{static_cast<double>(left), static_cast<double>(top),
                      static_cast<double>(box_width), static_cast<double>(box_height)};
      candidates.push_back({area, sums.within(area)});
    }
  }
  std::ranges::stable_sort(candidates, std::ranges::greater(), &Candidate::sum);
  std::vector<Area> boxes;
  for (const Candidate& candidate : candidates) {
    if (boxes.size() == count) break;
    if (std::ranges::all_of(
            boxes, [&](const Area& box) { return overlap(candidate.area, box) <= kMostOverlap; }))
      boxes.push_back(candidate.area);
  }
  return boxes;
}

/// A square around a point, moved into the picture.
Area around(double x, double y, double side, double width, double height) {
  const double box_width = std::min(side, width);
  const double box_height = std::min(side, height);
  return {std::clamp(x - box_width / 2, 0.0, width - box_width),
          std::clamp(y - box_height / 2, 0.0, height - box_height), box_width, box_height};
}

}  // namespace

double overlap(const Area& a, const Area& b) {
  const double width = std::min(a.left + a.width, b.left + b.width) - std::max(a.left, b.left);
  const double height = std::min(a.top + a.height, b.top + b.height) - std::max(a.top, b.top);
  const double shared = std::max(width, 0.0) * std::max(height, 0.0);
  return shared / (a.width * a.height + b.width * b.height - shared);
}

MapSums::MapSums(const AttentionMap& map)
    : rows_(map.rows),
      columns_(map.columns),
      cell_(static_cast<double>(map.patch_size)),
      sums_(static_cast<std::size_t>((map.rows + 1) * (map.columns + 1))) {
  const auto stride = static_cast<std::size_t>(columns_ + 1);
  std::size_t cell = 0;
  for (std::size_t end = stride + 1; end < sums_.size(); ++end) {
    if (end % stride == 0) continue;
    sums_[end] =
        map.values[cell++] + sums_[end - 1] + sums_[end - stride] - sums_[end - stride - 1];
  }
}

double MapSums::before(double x, double y) const {
  x = std::clamp(x / cell_, 0.0, static_cast<double>(columns_));
  y = std::clamp(y / cell_, 0.0, static_cast<double>(rows_));
  const std::int64_t column = std::min(static_cast<std::int64_t>(x), columns_ - 1);
  const std::int64_t row = std::min(static_cast<std::int64_t>(y), rows_ - 1);
  const double right = x - static_cast<double>(column);
  const double down = y - static_cast<double>(row);
  const auto corner = static_cast<std::size_t>(row * (columns_ + 1) + column);
  const std::size_t below = corner + static_cast<std::size_t>(columns_ + 1);
  return (sums_[corner] * (1 - right) + sums_[corner + 1] * right) * (1 - down) +
         (sums_[below] * (1 - right) + sums_[below + 1] * right) * down;
}

double MapSums::within(const Area& box) const {
  const double right = box.left + box.width;
  const double bottom = box.top + box.height;
  return before(right, bottom) - before(box.left, bottom) - before(right, box.top) +
         before(box.left, box.top);
}

std::vector<View> find_views(const AttentionMap& map, std::int64_t width, std::int64_t height) {
  const auto w = static_cast<double>(width);
  const auto h = static_cast<double>(height);
  const std::size_t peak = peak_of(smoothed(map));
  std::vector<View> views;
  const auto add = [&](const Area& area, bool of_whole) { views.push_back({area, of_whole}); };
  const MapSums sums(map);
  const std::int64_t shorter = std::min(width, height);
  for (std::size_t i = 0; i < kSides.size(); ++i)
    for (const Area& area :
         densest(sums, kSides.at(i), kCounts.at(i), map.patch_size, width, height))
      add(area, false);
  for (const Area& area : densest(sums, shorter, 1, map.patch_size, width, height))
    add(area, false);
  const auto centre = [&](std::int64_t cell) {
    return (static_cast<double>(cell) + 0.5) * static_cast<double>(map.patch_size);
  };
  const double x = centre(static_cast<std::int64_t>(peak) % map.columns);
  const double y = centre(static_cast<std::int64_t>(peak) / map.columns);
  for (const std::int64_t side : kSides) add(around(x, y, static_cast<double>(side), w, h), false);
  add(around(w / 2, h / 2, static_cast<double>(shorter), w, h), true);
  add({0, 0, w, h}, true);
  return views;
}

}  // namespace hydrascope::zoom
