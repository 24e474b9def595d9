#include "kernels/overlay/overlay.h"

#include "kernels/overlay/preconditions.h"
#include "kernels/overlay/sample_position.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace hydrascope::kernels::overlay {
namespace {

/// n of the equation.
struct Normalise {
  explicit Normalise(const OverlayParams& p)
      : low(p.low), scale(p.high > p.low ? 1 / (p.high - p.low) : 0) {}
  float operator()(float heat) const {
    if (scale == 0) return heat == heat ? 0 : heat;
    const float t = (heat - low) * scale;
    return t < 0 ? 0 : t > 1 ? 1 : t;  // a NaN stays
  }
  float low;
  float scale;
};

/// Row `row` of the picture's t, at the columns of the grid.
void heat_line(const OverlayParams& p, std::int64_t row, const Normalise& normalise,
               std::vector<float>& line) {
  const Position at =
      position(p.sampling == Sampling::bilinear, static_cast<std::int32_t>(row),
               static_cast<std::int32_t>(p.span_height), static_cast<std::int32_t>(p.heat_rows));
  const float* heat = p.heat + at.cell * p.heat_stride;
  for (std::int64_t c = 0; c < p.heat_columns; ++c)
    line[static_cast<std::size_t>(c)] = normalise(heat[c]);
  if (at.weight == 0) return;
  heat += p.heat_stride;
  for (std::int64_t c = 0; c < p.heat_columns; ++c) {
    float& t = line[static_cast<std::size_t>(c)];
    t += (normalise(heat[c]) - t) * at.weight;
  }
}

/// What is the same for all pixels. Held apart from the parameters: a store of bytes could be to
/// anything, and would have those read again for every pixel.
struct Blend {
  const std::uint8_t* colors;
  float alpha;
  float alpha_of_heat;

  /// `pixel` (3) under the colour of t, to y.
  void operator()(const std::uint8_t* pixel, float t, std::uint8_t* y) const {
    if (std::isnan(t)) {
      std::copy(pixel, pixel + 3, y);
      return;
    }
    const float at = 255 * t;
    // The last entry has no next: there the step is 1, from the one before.
    const int entry = std::min(static_cast<int>(at), 254);
    const float step = at - static_cast<float>(entry);
    const float a = alpha + alpha_of_heat * t;
    const std::uint8_t* color = colors + 3 * entry;
    for (int c = 0; c < 3; ++c) {
      const auto here = static_cast<float>(color[c]);
      const float blended = here + (static_cast<float>(color[c + 3]) - here) * step;
      const auto value = static_cast<float>(pixel[c]);
      y[c] = static_cast<std::uint8_t>(value + (blended - value) * a + 0.5F);
    }
  }
};

}  // namespace

void overlay(const OverlayParams& p, std::int64_t first_row, std::int64_t row_count) {
  check(p);
  const Normalise normalise(p);
  const bool by_heat = p.opacity == Opacity::heat;
  const Blend blend{p.colors, by_heat ? 0 : p.alpha, by_heat ? p.alpha : 0};
  // Divisions, and the same in every row.
  std::vector<Position> columns;
  columns.reserve(static_cast<std::size_t>(p.width));
  for (std::int64_t column = 0; column < p.width; ++column)
    columns.push_back(position(p.sampling == Sampling::bilinear, static_cast<std::int32_t>(column),
                               static_cast<std::int32_t>(p.span_width),
                               static_cast<std::int32_t>(p.heat_columns)));
  std::vector<float> line(static_cast<std::size_t>(p.heat_columns));
  for (std::int64_t row = first_row; row < first_row + row_count; ++row) {
    heat_line(p, row, normalise, line);
    const std::uint8_t* picture = p.picture + row * p.picture_stride;
    std::uint8_t* y = p.y + row * p.y_stride;
    const float* cells = line.data();
    for (const Position& at : columns) {
      const float here = cells[at.cell];
      const float t = at.weight == 0 ? here : here + (cells[at.cell + 1] - here) * at.weight;
      blend(picture, t, y);
      picture += 3;
      y += 3;
    }
  }
}

}  // namespace hydrascope::kernels::overlay
