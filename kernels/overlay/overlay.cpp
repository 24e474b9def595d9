#include "kernels/overlay/overlay.h"

#include "kernels/error.h"
#include "kernels/overlay/sample_position.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hydrascope::kernels::overlay {
namespace {

/// Row `row` of the picture's t, at the columns of the grid.
void heat_line(const OverlayParams& p, std::int64_t row, std::vector<float>& line) {
  const Position at = position(row, p.vertical);
  const float* heat = p.heat + at.cell * p.heat_stride;
  std::copy_n(heat, p.horizontal.cells, line.begin());
  if (at.weight == 0) return;
  heat += p.heat_stride;
  for (std::int64_t c = 0; c < p.horizontal.cells; ++c) {
    float& t = line[static_cast<std::size_t>(c)];
    t += (heat[c] - t) * at.weight;
  }
}

/// The values that all pixels share, in the types of the computation.
class Blend {
 public:
  explicit Blend(const OverlayParams& p) {
    // a = |slope t + offset|
    slope_ = p.opacity == Opacity::heat ? p.alpha : 2 * p.alpha;
    offset_ = p.opacity == Opacity::heat ? 0 : -p.alpha;
    for (std::size_t i = 0; i < 256; ++i) {
      for (std::size_t c = 0; c < 3; ++c) {
        entries_[i].color[c] = static_cast<float>(p.colors[3 * i + c]);
        // The last entry has no next, and is never the first of two.
        const std::size_t next = i < 255 ? i + 1 : i;
        entries_[i].step[c] = static_cast<float>(p.colors[3 * next + c]) - entries_[i].color[c];
      }
    }
  }

  /// Writes `pixel` (3) under the colour of t to y.
  void operator()(const std::uint8_t* pixel, float t, std::uint8_t* y) const {
    if (std::isnan(t)) {
      std::copy(pixel, pixel + 3, y);
      return;
    }
    const float at = 255 * t;
    const int number = std::min(static_cast<int>(at), 254);
    const float step = at - static_cast<float>(number);
    const float a = std::abs(slope_ * t + offset_);
    const Entry& entry = entries_[static_cast<std::size_t>(number)];
    for (int c = 0; c < 3; ++c) {
      const float color = entry.color[c] + entry.step[c] * step;
      const auto value = static_cast<float>(pixel[c]);
      y[c] = static_cast<std::uint8_t>(static_cast<int>(value + (color - value) * a + 0.5F));
    }
  }

 private:
  struct Entry {  // of 32 bytes: a shift, not a product, finds one
    float color[4];
    float step[4];  ///< to the next entry's
  };
  float slope_;
  float offset_;
  Entry entries_[256] = {};
};

/// The value of an unseen pixel for every value of the picture.
std::array<std::uint8_t, 256> dimmed(float brightness) {
  std::array<std::uint8_t, 256> values{};
  for (std::size_t v = 0; v < 256; ++v)
    values[v] = static_cast<std::uint8_t>(static_cast<float>(v) * brightness + 0.5F);
  return values;
}

}  // namespace

void check(const OverlayParams& p) {
  constexpr std::int64_t kMaxPixels = std::int64_t{1} << 29;
  constexpr std::int64_t kMaxUnits = std::int64_t{1} << 61;
  for (const Edge& e : {p.vertical, p.horizontal}) {
    if (e.cells < 1 || e.cells >= kMaxPixels || e.pixels < 0 || e.pixels >= kMaxPixels)
      throw Error(ErrorCode::internal,
                  "a grid needs at least one cell, and less than 2^29 per side", "overlay");
    const bool is_exact = e.step >= 1 && e.step < kMaxUnits / 2 / (e.pixels + 1) &&
                          e.half_cell >= 1 && e.half_cell < kMaxUnits / 2 && e.start > -kMaxUnits &&
                          e.start < kMaxUnits;
    if (!is_exact)
      throw Error(ErrorCode::internal, "a grid's place needs whole numbers below 2^61", "overlay");
    if (e.seen_begin < 0 || e.seen_begin > e.seen_end || e.seen_end > e.pixels)
      throw Error(ErrorCode::internal, "what is seen lies within the picture", "overlay");
  }
  const auto is_share = [](float value) { return value >= 0 && value <= 1; };
  if (!is_share(p.alpha) || !is_share(p.unseen_brightness))
    throw Error(ErrorCode::internal, "alpha and brightness lie between 0 and 1", "overlay");
}

void overlay(const OverlayParams& p, std::int64_t first_row, std::int64_t row_count) {
  check(p);
  const Blend blend(p);
  const std::array<std::uint8_t, 256> unseen = dimmed(p.unseen_brightness);
  const auto dim = [&](const std::uint8_t* from, std::int64_t pixels, std::uint8_t* to) {
    for (std::int64_t i = 0; i < 3 * pixels; ++i) to[i] = unseen[from[i]];
  };
  const Edge& across = p.horizontal;
  // Positions need divisions, and every row has the same ones.
  std::vector<Position> columns;
  columns.reserve(static_cast<std::size_t>(across.seen_end - across.seen_begin));
  for (std::int64_t column = across.seen_begin; column < across.seen_end; ++column)
    columns.push_back(position(column, across));
  std::vector<float> line(static_cast<std::size_t>(across.cells));
  for (std::int64_t row = first_row; row < first_row + row_count; ++row) {
    const std::uint8_t* picture = p.picture + row * p.picture_stride;
    std::uint8_t* y = p.y + row * p.y_stride;
    if (!is_seen(p.vertical, row)) {
      dim(picture, across.pixels, y);
      continue;
    }
    dim(picture, across.seen_begin, y);
    heat_line(p, row, line);
    const float* cells = line.data();
    const std::uint8_t* pixel = picture + 3 * across.seen_begin;
    std::uint8_t* to = y + 3 * across.seen_begin;
    for (const Position& at : columns) {
      const float here = cells[at.cell];
      const float t = at.weight == 0 ? here : here + (cells[at.cell + 1] - here) * at.weight;
      blend(pixel, t, to);
      pixel += 3;
      to += 3;
    }
    dim(pixel, across.pixels - across.seen_end, to);
  }
}

}  // namespace hydrascope::kernels::overlay
