// Rectangles of pictures: choosing, cutting and resizing them.
#pragma once

#include "model/image/decode.h"
#include "model/image/transform_plan.h"
#include "model/training/data/random_stream.h"

#include <array>
#include <cstdint>

namespace hydrascope::model::training {

/// A rectangle in pixels, inside a picture.
struct CropBox {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  friend bool operator==(const CropBox&, const CropBox&) = default;
};

/// RandomResizedCrop of torchvision and timm: an area of `scale` times the picture's and an aspect
/// ratio (width / height, uniform in its logarithm), ten tries to fit them in, then the largest
/// centred box whose ratio is within `ratio`.
CropBox random_resized_crop(image::Size picture, const std::array<double, 2>& scale,
                            const std::array<double, 2>& ratio, RandomStream& stream);

/// Antialiased, as image::transform_pixels resamples; on the calling thread.
image::Picture resize(const image::Picture& picture, image::Size size,
                      image::Interpolation interpolation);
image::Picture resize_crop(const image::Picture& picture, const CropBox& box, image::Size size,
                           image::Interpolation interpolation);

void flip_horizontally(image::Picture& picture);

}  // namespace hydrascope::model::training
