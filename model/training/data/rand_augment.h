// RandAugment (Cubuk et al. 2020, arXiv 1909.13719) with the operations and levels of timm.
#pragma once

#include "model/image/decode.h"
#include "model/image/transform_plan.h"
#include "model/training/data/random_stream.h"
#include "model/training/data/training_set.h"

#include <array>
#include <cstdint>

namespace hydrascope::model::training {

enum class Operation {
  auto_contrast,
  equalize,
  invert,
  rotate,
  posterize,
  solarize,
  solarize_add,
  color,
  contrast,
  brightness,
  sharpness,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
};
inline constexpr int kNumOperations = 15;

/// The argument of an operation at a magnitude from 0 to 10: degrees, bits, a threshold, an amount,
/// a factor or a share of the edge; 0 for operations without one. `negative`: shifts, shears and
/// rotations in the other direction, and factors below 1 of the increasing set.
double operation_argument(Operation operation, double magnitude, bool increasing, bool negative);

/// Changes the picture in place, by an argument as above. `interpolation` and `fill` (for pixels
/// from outside) serve the last four and `rotate`.
void apply_operation(Operation operation, double argument, image::Interpolation interpolation,
                     const std::array<std::uint8_t, 3>& fill, image::Picture& picture);

/// Draws operations, their magnitudes and filters; `mean` (of 1) is the colour of pixels from
/// outside.
void rand_augment(const RandAugmentOptions& options, const std::array<double, 3>& mean,
                  image::Picture& picture, RandomStream& stream);

/// Bilinear or bicubic.
image::Interpolation draw_interpolation(RandomStream& stream);

}  // namespace hydrascope::model::training
