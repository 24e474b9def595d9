// The part of a resized picture that somebody wants, computed from the pixels that it needs: a crop
// of a picture of 8100x1 pixels must not cost the 2 million rows of the picture it is cut from.
#pragma once

#include "model/image/decode.h"
#include "model/image/transform_plan.h"

#include <cstdint>

namespace hydrascope::image {

/// A rectangle of the resized picture, in its pixels; inside it, and not empty.
struct Window {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// `picture` resized to `size` as Pillow does it, of which `window` is written: 8-bit RGB, rows
/// `stride` bytes apart. Equal to Pillow bit for bit with `nearest`, otherwise within two steps of
/// 255: weights have 16 bits as in ATen's `_upsample_bicubic2d_aa` and `_upsample_bilinear2d_aa`,
/// whose bytes these are, and 22 in Pillow. Runs on the calling thread.
/// `is_grey`: of the picture in grey, whose three channels are one.
void resample(const Picture& picture, Size size, const Window& window, Interpolation interpolation,
              bool is_grey, std::uint8_t* rgb, std::int64_t stride);

/// Most bytes that `resample` allocates.
double resample_bytes(Size picture, Size size, const Window& window);

}  // namespace hydrascope::image
