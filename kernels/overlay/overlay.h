// Heat drawn over a picture: what a visualizer shows of an attention map.
//
// Equations, for pixel (i, j) of the picture:
//   n(r, c) = clamp((heat[r, c] - low) / (high - low), 0, 1), a NaN stays; 0 for every number where
//     high > low does not hold (a map that is the same everywhere).
//   t = n upsampled. The grid's R x C cells lie over span_height x span_width pixels from the
//     picture's upper left corner (the picture itself, or what it was padded to for whole patches).
//     bilinear: half-pixel centres, row coordinate u = (i + 1/2) R / span_height - 1/2 clamped to
//       [0, R - 1], linear between floor(u) and the next row; columns likewise (what torch's
//       interpolate calls bilinear without align_corners). Cells of weight 0 do not count.
//     nearest: the cell under the pixel's centre, so that patches can be seen.
//   colour = colours at 255 t, linear between entry floor(255 t) and the next.
//   a = alpha (Opacity::constant) or alpha t (Opacity::heat: cold parts show the picture).
//   y = (1 - a) picture + a colour, rounded to nearest. Where t is NaN, y = picture.
// Tensors: see the fields; any alignment. y may be the picture (with the same stride) and must not
//   overlap anything otherwise.
// Memory: 3 bytes read and 3 written a pixel; the grid and the colours stay in the cache.
// 1080p: 12.4
//   MB; about 60 operations a pixel, 20 ms on one core (9 ns a pixel, no vectors: colours are
//   looked up): bound by arithmetic.
// Numerics: float32; where a pixel's centre lies is computed in integers, so that cells and weights
//   of 0 are those of the equation. y is the equation's, rounded, wherever the exact value is not
//   within 0.01 of a half, as long as neighbouring colours differ by 64 or less.
// Deterministic: every pixel by itself; it depends neither on the rows of the call nor on others.
// Preconditions: 0 <= alpha <= 1, heat_rows and heat_columns >= 1, spans >= 1, height * heat_rows,
//   width * heat_columns and the same products of the spans below 2^29; high - low finite. Else
//   Error(internal), where it can be seen without reading the heat.
// Test: tests/kernels/overlay/overlay_test.cpp, overlay_cuda_test.cpp; twin: overlay_reference.h;
// on CUDA: overlay_cuda.h.
#pragma once

#include <cstdint>

namespace hydrascope::kernels::overlay {

enum class Sampling { bilinear, nearest };
enum class Opacity { constant, heat };

struct OverlayParams {
  const std::uint8_t* picture;  ///< (height, width, 3)
  std::int64_t picture_stride;  ///< bytes between rows
  std::int64_t height;
  std::int64_t width;
  const float* heat;         ///< (heat_rows, heat_columns)
  std::int64_t heat_stride;  ///< elements between rows
  std::int64_t heat_rows;
  std::int64_t heat_columns;
  std::int64_t
      span_height;  ///< pixels that the rows of heat lie over; `height`, or more with padding
  std::int64_t span_width;
  float low;                   ///< heat of the first colour
  float high;                  ///< heat of the last
  const std::uint8_t* colors;  ///< (256, 3)
  Sampling sampling;
  Opacity opacity;
  float alpha;
  std::uint8_t* y;        ///< (height, width, 3); may be the picture
  std::int64_t y_stride;  ///< bytes between rows
};

/// Rows first_row .. first_row + row_count of y. Calls for different rows may run side by side.
void overlay(const OverlayParams& params, std::int64_t first_row, std::int64_t row_count);

}  // namespace hydrascope::kernels::overlay
