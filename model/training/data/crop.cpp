#include "model/training/data/crop.h"

#include "model/transform.h"

#include <algorithm>
#include <cmath>

namespace hydrascope::model::training {
namespace {

/// Python's round: half to even.
std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

CropBox centred(image::Size picture, std::int64_t height, std::int64_t width) {
  return {(picture.height - height) / 2, (picture.width - width) / 2, height, width};
}

image::Picture cut(const image::Picture& picture, const CropBox& box) {
  image::Picture part{static_cast<int>(box.width), static_cast<int>(box.height), {}};
  part.rgb.reserve(box.height * box.width * 3);
  for (std::int64_t y = box.top; y < box.top + box.height; ++y) {
    const std::uint8_t* row = picture.rgb.data() + (y * picture.width + box.left) * 3;
    part.rgb.insert(part.rgb.end(), row, row + box.width * 3);
  }
  return part;
}

}  // namespace

CropBox random_resized_crop(image::Size picture, const std::array<double, 2>& scale,
                            const std::array<double, 2>& ratio, RandomStream& stream) {
  const double area = static_cast<double>(picture.height) * static_cast<double>(picture.width);
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    const double target = area * stream.uniform(scale[0], scale[1]);
    const double aspect = std::exp(stream.uniform(std::log(ratio[0]), std::log(ratio[1])));
    const std::int64_t width = rounded(std::sqrt(target * aspect));
    const std::int64_t height = rounded(std::sqrt(target / aspect));
    if (width < 1 || height < 1 || width > picture.width || height > picture.height) continue;
    const auto top = static_cast<std::int64_t>(stream.below(picture.height - height + 1));
    const auto left = static_cast<std::int64_t>(stream.below(picture.width - width + 1));
    return {top, left, height, width};
  }
  const auto [height, width] = picture;
  const double aspect = static_cast<double>(width) / static_cast<double>(height);
  const auto within = [](std::int64_t most, double edge) {
    return std::clamp<std::int64_t>(rounded(edge), 1, most);
  };
  if (aspect < ratio[0])
    return centred(picture, within(height, static_cast<double>(width) / ratio[0]), width);
  if (aspect > ratio[1])
    return centred(picture, height, within(width, static_cast<double>(height) * ratio[1]));
  return centred(picture, height, width);
}

image::Picture resize(const image::Picture& picture, image::Size size,
                      image::Interpolation interpolation) {
  // An evaluation transform that only resizes.
  const image::TransformConfig config{.img_size = size,
                                      .crop_pct = 1.0,
                                      .crop_mode = image::CropMode::squash,
                                      .interpolation = interpolation,
                                      .patch_size = 1};
  const at::Tensor pixels = image::transform_pixels(config, picture);
  const auto* rgb = pixels.const_data_ptr<std::uint8_t>();
  return {static_cast<int>(size.width), static_cast<int>(size.height), {rgb, rgb + pixels.numel()}};
}

image::Picture resize_crop(const image::Picture& picture, const CropBox& box, image::Size size,
                           image::Interpolation interpolation) {
  if (box == CropBox{0, 0, picture.height, picture.width})
    return resize(picture, size, interpolation);
  return resize(cut(picture, box), size, interpolation);
}

void flip_horizontally(image::Picture& picture) {
  for (std::int64_t y = 0; y < picture.height; ++y) {
    std::uint8_t* left = picture.rgb.data() + y * picture.width * 3;
    std::uint8_t* right = left + (picture.width - 1) * 3;
    for (; left < right; left += 3, right -= 3) std::swap_ranges(left, left + 3, right);
  }
}

}  // namespace hydrascope::model::training
