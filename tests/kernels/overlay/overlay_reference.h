// The naive twin of overlay.h: its equations in float64, pixel by pixel.
#pragma once

#include "kernels/overlay/overlay.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace hydrascope::kernels::overlay {

/// The grid's coordinate of a pixel's centre, in cells from the first one's centre. If it is a
/// whole number it comes out as one: a quotient of integers, which is rounded correctly.
inline double coordinate(std::int64_t pixel, const Edge& edge) {
  const auto numerator =
      static_cast<double>((2 * pixel + 1) * edge.step - edge.start - edge.half_cell);
  return std::clamp(numerator / static_cast<double>(2 * edge.half_cell), 0.0,
                    static_cast<double>(edge.cells - 1));
}

inline double bilinear(const OverlayParams& p, std::int64_t i, std::int64_t j) {
  const double u = coordinate(i, p.vertical);
  const double v = coordinate(j, p.horizontal);
  double t = 0;
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{1}}) {
    for (const std::int64_t column : {std::int64_t{0}, std::int64_t{1}}) {
      const double down = u - std::floor(u);
      const double right = v - std::floor(v);
      const double weight = (row == 0 ? 1 - down : down) * (column == 0 ? 1 - right : right);
      if (weight > 0)
        t += weight *
             static_cast<double>(p.heat[(static_cast<std::int64_t>(u) + row) * p.heat_stride +
                                        static_cast<std::int64_t>(v) + column]);
    }
  }
  return t;
}

inline double share(const OverlayParams& p, double t) {
  const auto alpha = static_cast<double>(p.alpha);
  return p.opacity == Opacity::heat ? alpha * t : alpha * std::abs(2 * t - 1);
}

inline bool is_unseen(std::int64_t pixel, const Edge& edge) {
  return pixel < edge.seen_begin || pixel >= edge.seen_end;
}

/// Channel `channel` of the colours at t.
inline double color(const OverlayParams& p, double t, int channel) {
  const double at = 255 * t;
  const double entry = std::floor(at);
  const auto value = [&](double which) {
    return static_cast<double>(p.colors[3 * static_cast<int>(std::min(which, 255.0)) + channel]);
  };
  return value(entry) + (value(entry + 1) - value(entry)) * (at - entry);
}

/// What `overlay` writes, unrounded: (height, width, 3). All memory is on the host.
inline std::vector<double> overlay_reference(const OverlayParams& p) {
  std::vector<double> y;
  for (std::int64_t i = 0; i < p.vertical.pixels; ++i) {
    for (std::int64_t j = 0; j < p.horizontal.pixels; ++j) {
      const double t = bilinear(p, i, j);
      const double a = share(p, t);
      for (int channel = 0; channel < 3; ++channel) {
        const auto pixel = static_cast<double>(p.picture[i * p.picture_stride + 3 * j + channel]);
        if (is_unseen(i, p.vertical) || is_unseen(j, p.horizontal))
          y.push_back(pixel * static_cast<double>(p.unseen_brightness));
        else
          y.push_back(std::isnan(t) ? pixel : (1 - a) * pixel + a * color(p, t, channel));
      }
    }
  }
  return y;
}

}  // namespace hydrascope::kernels::overlay
