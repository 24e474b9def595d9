#include "model/training/data/augment.h"

#include "kernels/error.h"
#include "model/training/data/crop.h"
#include "model/training/data/rand_augment.h"
#include "model/training/data/random_erasing.h"
#include "model/transform.h"

#include <ATen/ops/from_blob.h>

#include <string>

namespace hydrascope::model::training {
void check_augmentation(const AugmentOptions& options) {
  const auto require = [](bool holds, const std::string& what) {
    if (!holds) throw Error(ErrorCode::invalid_argument, what);
  };
  const auto is_probability = [](double value) { return value >= 0 && value <= 1; };
  require(options.size.height >= 1 && options.size.width >= 1,
          "training pictures need a size of at least one pixel");
  require(options.scale[0] > 0 && options.scale[0] <= options.scale[1] && options.scale[1] <= 1,
          "the scale of a crop must be two shares of the area, the smaller first");
  require(options.ratio[0] > 0 && options.ratio[0] <= options.ratio[1],
          "the ratio of a crop must be two numbers above 0, the smaller first");
  require(is_probability(options.hflip) && is_probability(options.erase_probability),
          "probabilities of flips and of erasing must be between 0 and 1");
  const RandAugmentOptions& aa = options.rand_augment;
  require(aa.operations >= 0 && aa.magnitude >= 0 && aa.magnitude_std >= 0 &&
              is_probability(aa.probability),
          "RandAugment's numbers must not be negative, its probability at most 1");
  for (const double value : options.stddev) require(value > 0, "std must be above 0");
}

at::Tensor normalise(const AugmentOptions& options, image::Picture& picture) {
  const image::TransformConfig config{.mean = options.mean, .std = options.stddev};
  const at::Tensor pixels =
      at::from_blob(picture.rgb.data(), {picture.height, picture.width, 3}, at::kByte);
  return image::normalise(config, pixels, {picture.height, picture.width});
}

at::Tensor augment(const AugmentOptions& options, const image::Picture& picture,
                   RandomStream& stream) {
  const CropBox box =
      random_resized_crop({picture.height, picture.width}, options.scale, options.ratio, stream);
  image::Picture crop = resize_crop(picture, box, options.size, draw_interpolation(stream));
  if (stream.chance(options.hflip)) flip_horizontally(crop);
  rand_augment(options.rand_augment, options.mean, crop, stream);
  at::Tensor image = normalise(options, crop);
  erase_randomly(options.erase_probability, options.size, image.mutable_data_ptr<float>(), stream);
  return image;
}

}  // namespace hydrascope::model::training
