#include "viz/heat/heat_overlay.h"

#include "kernels/error.h"
#include "kernels/overlay/overlay.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>

namespace hydrascope::viz {
namespace {

namespace overlay = kernels::overlay;

constexpr Color kSeenFrame{235, 235, 235};

/// A pixel's centre p + 1/2 lies at ((p + 1/2) resized / picture - window_start) cells / output
/// cells, all times 2 picture output to be whole. Cells mostly divide the output, which leaves the
/// numbers small.
overlay::Edge edge(const Axis& axis) {
  const std::int64_t common = std::gcd(axis.cells, axis.output);
  if (common == 0) throw Error(ErrorCode::internal, "a grid has cells over pixels", "placement");
  const std::int64_t cells = axis.cells / common;
  const SeenRange range = seen(axis);
  return {axis.picture,
          axis.cells,
          axis.resized * cells,
          2 * axis.window_start * axis.picture * cells,
          axis.picture * (axis.output / common),
          range.begin,
          std::max(range.begin, range.end)};
}

void check_sizes(const Canvas& picture, std::int64_t rows, std::int64_t columns, std::size_t values,
                 const Placement& placement) {
  const auto text = [](std::int64_t height, std::int64_t width) {
    return std::to_string(height) + " x " + std::to_string(width);
  };
  if (picture.height != placement.vertical.picture || picture.width != placement.horizontal.picture)
    throw Error(ErrorCode::internal,
                "expected a picture of " +
                    text(placement.vertical.picture, placement.horizontal.picture) + ", found " +
                    text(picture.height, picture.width),
                "placement");
  if (rows != placement.vertical.cells || columns != placement.horizontal.cells ||
      values != static_cast<std::size_t>(rows * columns))
    throw Error(ErrorCode::internal,
                "expected a map of " + text(placement.vertical.cells, placement.horizontal.cells) +
                    ", found " + text(rows, columns) + " of " + std::to_string(values) + " values",
                "placement");
}

/// Pixels first .. last of an edge that are in a cell: `first[c] .. first[c + 1]`.
std::vector<int> first_pixels(const Axis& axis) {
  const SeenRange range = seen(axis);
  std::vector<int> first(static_cast<std::size_t>(axis.cells) + 1, static_cast<int>(range.end));
  for (std::int64_t pixel = range.end; pixel-- > range.begin;)
    first[static_cast<std::size_t>(cell_at(axis, pixel))] = static_cast<int>(pixel);
  // A cell between pixels begins where the next one does.
  for (std::size_t c = first.size() - 1; c-- > 0;) first[c] = std::min(first[c], first[c + 1]);
  return first;
}

/// `length` pixels around the edge `at`, moved to lie within what is seen.
int centred(int at, int length, const SeenRange& range) {
  const int begin = static_cast<int>(range.begin);
  const int end = static_cast<int>(range.end);
  return std::max(begin, std::min(at - length / 2, end - length));
}

/// The sides of cells where a set ends, as rectangles of any thickness.
class Outline {
 public:
  Outline(const std::vector<std::uint8_t>& cells, const Placement& placement)
      : cells_(cells),
        placement_(placement),
        rows_(seen(placement.vertical)),
        columns_(seen(placement.horizontal)),
        top_(first_pixels(placement.vertical)),
        left_(first_pixels(placement.horizontal)) {}

  void draw(Canvas& picture, int thickness, Color color) const {
    for (std::int64_t row = 0; row < placement_.vertical.cells; ++row)
      for (std::int64_t column = 0; column < placement_.horizontal.cells; ++column)
        if (is_member(row, column)) draw_cell(picture, row, column, thickness, color);
  }

 private:
  bool is_member(std::int64_t row, std::int64_t column) const {
    return row >= 0 && row < placement_.vertical.cells && column >= 0 &&
           column < placement_.horizontal.cells &&
           cells_[static_cast<std::size_t>(row * placement_.horizontal.cells + column)] != 0;
  }

  void draw_cell(Canvas& picture, std::int64_t row, std::int64_t column, int thickness,
                 Color color) const {
    const int top = top_[static_cast<std::size_t>(row)];
    const int bottom = top_[static_cast<std::size_t>(row) + 1];
    const int left = left_[static_cast<std::size_t>(column)];
    const int right = left_[static_cast<std::size_t>(column) + 1];
    if (top == bottom || left == right) return;
    const auto across = [&](int y) {  // as long as the cell, and around its corners
      const int x = centred(left, thickness, columns_);
      fill_rectangle(picture, x, centred(y, thickness, rows_),
                     centred(right, thickness, columns_) + thickness - x, thickness, color);
    };
    const auto down = [&](int x) {
      const int y = centred(top, thickness, rows_);
      fill_rectangle(picture, centred(x, thickness, columns_), y, thickness,
                     centred(bottom, thickness, rows_) + thickness - y, color);
    };
    if (!is_member(row - 1, column)) across(top);
    if (!is_member(row + 1, column)) across(bottom);
    if (!is_member(row, column - 1)) down(left);
    if (!is_member(row, column + 1)) down(right);
  }

  const std::vector<std::uint8_t>& cells_;
  const Placement& placement_;
  SeenRange rows_;
  SeenRange columns_;
  std::vector<int> top_;
  std::vector<int> left_;
};

}  // namespace

void draw_heat(Canvas& picture, const HeatMap& map, const ValueRange& range,
               const Placement& placement, const OverlayStyle& style) {
  if (style.colormap == nullptr) throw Error(ErrorCode::internal, "no colour map", "overlay");
  check_sizes(picture, map.rows, map.columns, map.values.size(), placement);
  overlay::OverlayParams params{};
  ValueRange drawn = range;
  // One value everywhere is the first colour of a sequential map, but no extreme of a diverging
  // one.
  if (style.colormap->diverging && !(range.high > range.low)) {
    const float reach = std::max(1.0F, 2 * std::abs(range.low));
    drawn = {range.low - reach, range.low + reach};
  }
  HeatMap shares = shares_of(map, drawn);
  Placement grid = placement;
  if (style.sampling == Sampling::smooth) {
    const std::int64_t factor = fineness(map.rows, map.columns);
    shares = smoothed(shares, factor);
    grid.vertical.cells *= factor;
    grid.horizontal.cells *= factor;
  }
  params.picture = params.y = picture.rgb.data();
  params.picture_stride = params.y_stride = std::int64_t{3} * picture.width;
  params.vertical = edge(grid.vertical);
  params.horizontal = edge(grid.horizontal);
  params.heat = shares.values.data();
  params.heat_stride = shares.columns;
  params.low = 0;
  params.high = 1;
  params.colors = style.colormap->colors.data();
  params.sampling =
      style.sampling == Sampling::smooth ? overlay::Sampling::bilinear : overlay::Sampling::nearest;
  params.opacity = !style.fade                 ? overlay::Opacity::constant
                   : style.colormap->diverging ? overlay::Opacity::deviation
                                               : overlay::Opacity::heat;
  params.alpha = static_cast<float>(style.alpha);
  params.unseen_brightness = static_cast<float>(style.unseen_brightness);
  overlay::overlay(params, 0, params.vertical.pixels);
}

void frame_seen(Canvas& picture, const Placement& placement, int thickness) {
  const SeenRange rows = seen(placement.vertical);
  const SeenRange columns = seen(placement.horizontal);
  const int top = static_cast<int>(rows.begin);
  const int bottom = static_cast<int>(rows.end);
  const int left = static_cast<int>(columns.begin);
  const int right = static_cast<int>(columns.end);
  if (top >= bottom || left >= right) return;
  const int width = right - left + 2 * thickness;
  fill_rectangle(picture, left - thickness, top - thickness, width, thickness, kSeenFrame);
  fill_rectangle(picture, left - thickness, bottom, width, thickness, kSeenFrame);
  fill_rectangle(picture, left - thickness, top, thickness, bottom - top, kSeenFrame);
  fill_rectangle(picture, right, top, thickness, bottom - top, kSeenFrame);
}

void outline_cells(Canvas& picture, const std::vector<std::uint8_t>& cells,
                   const Placement& placement, int thickness) {
  check_sizes(picture, placement.vertical.cells, placement.horizontal.cells, cells.size(),
              placement);
  constexpr Color kWhite{255, 255, 255};
  constexpr Color kDark{24, 24, 24};
  const int dark = std::max(1, thickness / 3);
  const Outline outline(cells, placement);
  outline.draw(picture, thickness + 2 * dark, kDark);
  outline.draw(picture, thickness, kWhite);
}

}  // namespace hydrascope::viz
