// RandAugment (Cubuk et al. 2020, arXiv 1909.13719) with the operations and levels of timm.
#pragma once

#include "model/image/decode.h"
#include "model/image/transform_plan.h"
#include "model/training/data/random_stream.h"
#include "model/training/data/training_set.h"

#include <array>
#include <cstdint>
#include <string>

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

/// What a magnitude, 0 to 10, means to an operation: degrees, bits, a threshold, an amount, a
/// factor or a share of the edge; 0 for those that take nothing. Shifts, shears and rotations of
/// the other direction, and factors below 1 of the increasing set, are `negative`.
double operation_argument(Operation operation, double magnitude, bool increasing, bool negative);

/// In place, for an argument as above. `interpolation` and `fill` (of what comes from outside) are
/// for the last four and `rotate`.
void apply_operation(Operation operation, double argument, image::Interpolation interpolation,
                     const std::array<std::uint8_t, 3>& fill, image::Picture& picture);

/// Draws operations and their magnitudes; `interpolation` is bilinear, bicubic or random, which
/// draws it for each operation, `mean` (of 1) is the colour of what comes from outside.
void rand_augment(const RandAugmentOptions& options, const std::string& interpolation,
                  const std::array<double, 3>& mean, image::Picture& picture, RandomStream& stream);

/// The interpolation of that name, or bilinear or bicubic for `random`.
image::Interpolation draw_interpolation(const std::string& name, RandomStream& stream);

}  // namespace hydrascope::model::training
