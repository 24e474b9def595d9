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

void check_sizes(const Canvas& picture, const HeatMap& map, const Placement& placement) {
  const auto text = [](std::int64_t height, std::int64_t width) {
    return std::to_string(height) + " x " + std::to_string(width);
  };
  if (picture.height != placement.vertical.picture || picture.width != placement.horizontal.picture)
    throw Error(ErrorCode::internal,
                "expected a picture of " +
                    text(placement.vertical.picture, placement.horizontal.picture) + ", found " +
                    text(picture.height, picture.width),
                "placement");
  if (map.rows != placement.vertical.cells || map.columns != placement.horizontal.cells ||
      map.values.size() != static_cast<std::size_t>(map.rows * map.columns))
    throw Error(ErrorCode::internal,
                "expected a map of " + text(placement.vertical.cells, placement.horizontal.cells) +
                    ", found " + text(map.rows, map.columns) + " of " +
                    std::to_string(map.values.size()) + " values",
                "placement");
}

}  // namespace

void draw_heat(Canvas& picture, const HeatMap& map, const ValueRange& range,
               const Placement& placement, const OverlayStyle& style) {
  if (style.colormap == nullptr) throw Error(ErrorCode::internal, "no colour map", "overlay");
  check_sizes(picture, map, placement);
  overlay::OverlayParams params{};
  ValueRange drawn = range;
  // One value everywhere is the first colour of a sequential map, but no extreme of a diverging
  // one.
  if (style.colormap->diverging && !(range.high > range.low)) {
    const float reach = std::max(1.0F, 2 * std::abs(range.low));
    drawn = {range.low - reach, range.low + reach};
  }
  const std::int64_t factor = fineness(map.rows, map.columns);
  const HeatMap shares = smoothed(shares_of(map, drawn), factor);
  Placement grid = placement;
  grid.vertical.cells *= factor;
  grid.horizontal.cells *= factor;
  params.picture = params.y = picture.rgb.data();
  params.picture_stride = params.y_stride = std::int64_t{3} * picture.width;
  params.vertical = edge(grid.vertical);
  params.horizontal = edge(grid.horizontal);
  params.heat = shares.values.data();
  params.heat_stride = shares.columns;
  params.colors = style.colormap->colors.data();
  params.opacity = style.colormap->diverging ? overlay::Opacity::deviation : overlay::Opacity::heat;
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

}  // namespace hydrascope::viz
