// A wanted part of a resized picture, computed from the pixels that it needs: a crop of a picture
// of 8100x1 pixels must not cost the 2 million rows of the resized picture.
#pragma once

#include "model/image/decode.h"
#include "model/image/needed_pixels.h"
#include "model/image/transform_plan.h"

#include <cstdint>

namespace hydrascope::image {

/// A rectangle of the resized picture, in its pixels; inside it, and not empty.
using Window = PixelBox;

/// Resizes `picture` to `size` as Pillow does and writes `window` of it: 8-bit RGB, rows `stride`
/// bytes apart. Equal to Pillow bit for bit with `nearest`, otherwise within two steps of 255:
/// weights have 16 bits as in ATen's `_upsample_bicubic2d_aa` and `_upsample_bilinear2d_aa`, which
/// give the same bytes, and 22 in Pillow. Runs on the calling thread. `is_grey`: writes the grey
/// picture, three equal channels.
void resample(const Picture& picture, Size size, const Window& window, Interpolation interpolation,
              bool is_grey, std::uint8_t* rgb, std::int64_t stride);

/// The pixels of the picture that `resample` reads for that window.
PixelBox needed_pixels(Size picture, Size size, const Window& window, Interpolation interpolation);

/// Half of each edge, rounded down: means of 2x2 pixels, rounded half up. The picture has 2 pixels along each edge.
Picture halved(const Picture& picture);

}  // namespace hydrascope::image
