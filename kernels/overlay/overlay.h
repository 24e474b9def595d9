// Heat drawn over a picture, by which a visualizer shows an attention map.
//
// Equations, for pixel (i, j) of the picture:
//   u(i) = ((2 i + 1) step - start) / (2 half_cell) of `vertical`: how many cells the centre of
//     row i lies beyond the grid's edge; v(j) likewise of `horizontal`. The grid may begin and end
//     inside the picture or outside of it (a crop, padding).
//   t = heat upsampled: half-pixel centres, row coordinate u - 1/2 clamped to [0, R - 1], linear
//     between the rows around it; columns likewise (what torch's interpolate calls bilinear without
//     align_corners). Cells of weight 0 do not count.
//   colour = colours at 255 t, linear between entry floor(255 t) and the next.
//   a = alpha t (Opacity::heat: cold parts show the picture) or alpha |2 t - 1|
//     (Opacity::deviation: the middle of a diverging map does).
//   y = (1 - a) picture + a colour (Porter and Duff 1984, doi 10.1145/800031.808606), rounded; a
//     NaN t gives y = picture. Unseen pixels (i, j outside seen_*): y = unseen_brightness picture.
// Tensors: see the fields; any alignment. y may be the picture (with the same stride) and must not
//   overlap anything otherwise.
// Memory: 3 bytes read and 3 written per pixel; the grid and the colours stay in the cache. 1080p:
//   12.4 MB; about 60 operations per pixel, 13 ms on one core (6 ns per pixel, no vectors: colours
//   are looked up): bound by arithmetic.
// Numerics: float32; a pixel's centre is computed in integers of 64 bits, so that its cells and the
//   weights of 0 are exact. Tolerance: y is the equation's value, rounded, unless the exact value is
//   within 0.01 of a half; neighbouring colours must differ by 64 or less.
// Deterministic: every pixel by itself; it depends neither on the rows of the call nor on others.
// Preconditions: 0 <= alpha, unseen_brightness <= 1; for both edges cells >= 1, cells and pixels
//   below 2^29, step and half_cell >= 1; 2 (pixels + 1) step, |start| and 2 half_cell below 2^61;
//   0 <= seen_begin <= seen_end <= pixels; heat from 0 to 1, or NaN. Else Error(internal), where it can be
//   seen without reading the heat.
// Test: tests/kernels/overlay/overlay_test.cpp; twin: overlay_reference.h beside it.
#pragma once

#include <cstdint>

namespace hydrascope::kernels::overlay {

enum class Opacity { heat, deviation };

/// Along one edge of the picture: where the grid lies.
struct Edge {
  std::int64_t pixels;      ///< height or width of the picture
  std::int64_t cells;       ///< rows or columns of the grid
  std::int64_t step;        ///< half the units from one pixel's centre to the next
  std::int64_t start;       ///< units from the picture's edge to the grid's; may be negative
  std::int64_t half_cell;   ///< half the units of a cell
  std::int64_t seen_begin;  ///< the half-open range of pixels that the grid was made from
  std::int64_t seen_end;
};

struct OverlayParams {
  const std::uint8_t* picture;  ///< (vertical.pixels, horizontal.pixels, 3)
  std::int64_t picture_stride;  ///< bytes between rows
  Edge vertical;
  Edge horizontal;
  const float* heat;           ///< (vertical.cells, horizontal.cells), 0..1 or NaN
  std::int64_t heat_stride;    ///< elements between rows
  const std::uint8_t* colors;  ///< (256, 3)
  Opacity opacity;
  float alpha;
  float unseen_brightness;
  std::uint8_t* y;        ///< as the picture; may be the picture
  std::int64_t y_stride;  ///< bytes between rows
};

/// Error(internal) where a precondition does not hold; `overlay` begins with it.
void check(const OverlayParams& params);

/// Rows first_row .. first_row + row_count of y. Calls for different rows may run side by side.
void overlay(const OverlayParams& params, std::int64_t first_row, std::int64_t row_count);

}  // namespace hydrascope::kernels::overlay
