#include "model/training/data/rand_augment.h"

#include "model/training/data/picture_operations.h"

#include <algorithm>
#include <cmath>

namespace hydrascope::model::training {
namespace {

constexpr double kMostMagnitude = 10;

double draw_magnitude(const RandAugmentOptions& options, RandomStream& stream) {
  double magnitude = options.magnitude;
  if (std::isinf(options.magnitude_std)) {
    magnitude = stream.uniform(0, magnitude);
  } else if (options.magnitude_std > 0) {
    magnitude += options.magnitude_std * stream.normal();
  }
  return std::clamp(magnitude, 0.0, kMostMagnitude);
}

}  // namespace

double operation_argument(Operation operation, double magnitude, bool increasing, bool negative) {
  const double level = magnitude / kMostMagnitude;
  const double sign = negative ? -1 : 1;
  switch (operation) {
    case Operation::auto_contrast:
    case Operation::equalize:
    case Operation::invert: return 0;
    case Operation::rotate: return sign * level * 30;
    case Operation::posterize: {
      const double bits = std::trunc(level * 4);
      // Without any bit the picture is black, as timm's is at magnitude 10: nothing to learn from.
      return std::max(1.0, increasing ? 4 - bits : bits);
    }
    case Operation::solarize: {
      const double threshold = std::min(256.0, std::trunc(level * 256));
      return increasing ? 256 - threshold : threshold;
    }
    case Operation::solarize_add: return std::min(128.0, std::trunc(level * 110));
    case Operation::color:
    case Operation::contrast:
    case Operation::brightness:
    case Operation::sharpness:
      return increasing ? std::max(0.1, 1 + sign * level * 0.9) : level * 1.8 + 0.1;
    case Operation::shear_x:
    case Operation::shear_y: return sign * level * 0.3;
    case Operation::translate_x:
    case Operation::translate_y: return sign * level * 0.45;
  }
  return 0;
}

void apply_operation(Operation operation, double argument, image::Interpolation interpolation,
                     const std::array<std::uint8_t, 3>& fill, image::Picture& picture) {
  const auto move = [&](const AffineMap& map) {
    picture = transform(picture, map, interpolation, fill);
  };
  switch (operation) {
    case Operation::auto_contrast: return stretch_contrast(picture);
    case Operation::equalize: return equalize(picture);
    case Operation::invert: return invert(picture);
    case Operation::rotate: return move(rotation(argument, {picture.height, picture.width}));
    case Operation::posterize: return posterize(picture, static_cast<int>(argument));
    case Operation::solarize: return solarize(picture, static_cast<int>(argument));
    case Operation::solarize_add: return solarize_add(picture, static_cast<int>(argument));
    case Operation::color: return adjust_color(picture, argument);
    case Operation::contrast: return adjust_contrast(picture, argument);
    case Operation::brightness: return adjust_brightness(picture, argument);
    case Operation::sharpness: return adjust_sharpness(picture, argument);
    case Operation::shear_x: return move({1, argument, 0, 0, 1, 0});
    case Operation::shear_y: return move({1, 0, 0, argument, 1, 0});
    case Operation::translate_x: return move({1, 0, argument * picture.width, 0, 1, 0});
    case Operation::translate_y: return move({1, 0, 0, 0, 1, argument * picture.height});
  }
}

void rand_augment(const RandAugmentOptions& options, const std::array<double, 3>& mean,
                  image::Picture& picture, RandomStream& stream) {
  std::array<std::uint8_t, 3> fill{};
  for (std::size_t c = 0; c < 3; ++c)
    fill[c] = static_cast<std::uint8_t>(std::clamp(std::nearbyint(255 * mean[c]), 0.0, 255.0));
  for (int i = 0; i < options.operations; ++i) {
    const auto operation = static_cast<Operation>(stream.below(kNumOperations));
    if (!stream.chance(options.probability)) continue;
    const double magnitude = draw_magnitude(options, stream);
    const double argument =
        operation_argument(operation, magnitude, options.increasing, stream.chance(0.5));
    apply_operation(operation, argument, draw_interpolation(stream), fill, picture);
  }
}

image::Interpolation draw_interpolation(RandomStream& stream) {
  return stream.below(2) == 0 ? image::Interpolation::bilinear : image::Interpolation::bicubic;
}

}  // namespace hydrascope::model::training
