// Colour and geometry of 8-bit pictures as Pillow computes them (ImageOps, ImageEnhance,
// Image.transform), bit for bit, with plain loops on the calling thread.
#pragma once

#include "model/image/decode.h"
#include "model/image/transform_plan.h"

#include <array>
#include <cstdint>

namespace hydrascope::model::training {

/// The darkest value of each channel becomes 0, the lightest 255.
void stretch_contrast(image::Picture& picture);
/// Each channel's histogram becomes flat, as far as its values allow.
void equalize(image::Picture& picture);
void invert(image::Picture& picture);
/// Keeps the `bits` upper bits, 1 to 8.
void posterize(image::Picture& picture, int bits);
/// Inverts values of `threshold` and above.
void solarize(image::Picture& picture, int threshold);
/// Adds to values below 128.
void solarize_add(image::Picture& picture, int amount);

/// A factor of 1 changes nothing; 0 leaves the picture grey, of one grey, black or blurred; above 1
/// goes the other way.
void adjust_color(image::Picture& picture, double factor);
void adjust_contrast(image::Picture& picture, double factor);
void adjust_brightness(image::Picture& picture, double factor);
void adjust_sharpness(image::Picture& picture, double factor);

/// (a, b, c, d, e, f): pixel (x, y) comes from (a x + b y + c, d x + e y + f), in pixels, with the
/// centre of the first pixel at (0.5, 0.5).
using AffineMap = std::array<double, 6>;
/// Counter-clockwise about the centre.
AffineMap rotation(double degrees, image::Size size);
/// Pixels from outside are `fill`. Bilinear, or Pillow's bicubic (a = -1); not antialiased.
image::Picture transform(const image::Picture& picture, const AffineMap& map,
                         image::Interpolation interpolation,
                         const std::array<std::uint8_t, 3>& fill);

}  // namespace hydrascope::model::training
