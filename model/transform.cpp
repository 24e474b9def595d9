#include "model/transform.h"

#include "model/image/needed_pixels.h"
#include "model/image/resample.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace hydrascope::image {
namespace {

/// The pixels that the centred window and the picture share along one edge.
struct Overlap {
  std::int64_t from = 0;   ///< first pixel taken
  std::int64_t to = 0;     ///< their place in the window
  std::int64_t count = 0;  ///< number of pixels taken
};

/// The overlap of a picture and a window that begins at `start`; one lies inside the other.
Overlap overlap(std::int64_t picture, std::int64_t window, std::int64_t start) {
  return {std::max<std::int64_t>(0, start), std::max<std::int64_t>(0, -start),
          std::min(picture, window)};
}

/// value -> (value / 255 - mean) / std, rounded to float32 after every step like torchvision's
/// to_tensor and normalize. Bytes have only 256 results a channel.
std::array<float, 256> normalisation(double mean, double std) {
  std::array<float, 256> table{};
  for (std::size_t value = 0; value < table.size(); ++value) {
    const float unit = static_cast<float>(value) / 255.0F;
    table[value] = (unit - static_cast<float>(mean)) / static_cast<float>(std);
  }
  return table;
}

/// The colour around a picture that is smaller than its window: black, or for `border` the mean.
std::uint8_t fill_value(CropMode mode, double mean) {
  if (mode != CropMode::border) return 0;
  return static_cast<std::uint8_t>(std::clamp(std::nearbyint(255.0 * mean), 0.0, 255.0));
}

}  // namespace

at::Tensor transform_pixels(const TransformConfig& config, const Picture& picture) {
  return transform_pixels(config, picture, plan_transform(config, {picture.height, picture.width}));
}

at::Tensor transform_pixels(const TransformConfig& config, const Picture& picture,
                            const TransformPlan& plan) {
  const Overlap rows = overlap(plan.resized.height, plan.cropped.height, plan.window_top);
  const Overlap columns = overlap(plan.resized.width, plan.cropped.width, plan.window_left);

  at::Tensor cropped = at::empty({plan.cropped.height, plan.cropped.width, 3}, at::kByte);
  auto* out = cropped.mutable_data_ptr<std::uint8_t>();
  const std::int64_t stride = plan.cropped.width * 3;
  if (rows.count != plan.cropped.height || columns.count != plan.cropped.width) {
    std::array<std::uint8_t, 3> fill{};
    for (std::size_t c = 0; c < 3; ++c) fill[c] = fill_value(config.crop_mode, config.mean[c]);
    for (std::uint8_t* pixel = out; pixel != out + cropped.numel();)
      pixel = std::copy_n(fill.begin(), 3, pixel);
  }
  resample(picture, plan.resized, {rows.from, columns.from, rows.count, columns.count},
           config.interpolation, config.in_chans == 1, out + rows.to * stride + columns.to * 3,
           stride);
  return cropped;
}

PixelBox needed_pixels(const TransformConfig& config, Size picture, const TransformPlan& plan) {
  const Overlap rows = overlap(plan.resized.height, plan.cropped.height, plan.window_top);
  const Overlap columns = overlap(plan.resized.width, plan.cropped.width, plan.window_left);
  return needed_pixels(picture, plan.resized, {rows.from, columns.from, rows.count, columns.count},
                       config.interpolation);
}

at::Tensor normalise(const TransformConfig& config, const at::Tensor& pixels, Size output) {
  const at::NoGradGuard no_grad;
  const std::int64_t height = pixels.size(0);
  const std::int64_t width = pixels.size(1);
  at::Tensor input = at::empty({config.in_chans, output.height, output.width}, at::kFloat);
  auto* out = input.mutable_data_ptr<float>();
  for (std::size_t c = 0; std::cmp_less(c, config.in_chans); ++c) {
    const std::array<float, 256> table = normalisation(config.mean[c], config.std[c]);
    const std::uint8_t* in = pixels.const_data_ptr<std::uint8_t>() + c;
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x, in += 3) *out++ = table[*in];
      out = std::fill_n(out, output.width - width, 0.0F);
    }
    out = std::fill_n(out, (output.height - height) * output.width, 0.0F);
  }
  return input;
}

at::Tensor apply_transform(const TransformConfig& config, const Picture& picture) {
  const TransformPlan plan = plan_transform(config, {picture.height, picture.width});
  return normalise(config, transform_pixels(config, picture), plan.output);
}

at::Tensor renormalise(const at::Tensor& images, const TransformConfig& from,
                       const TransformConfig& to) {
  if (from.mean == to.mean && from.std == to.std) return images;
  at::Tensor result = images.clone();
  for (std::int64_t channel = 0; channel < to.in_chans; ++channel) {
    const auto c = static_cast<std::size_t>(channel);
    result.select(1, channel)
        .mul_(from.std[c] / to.std[c])
        .add_((from.mean[c] - to.mean[c]) / to.std[c]);
  }
  return result;
}

}  // namespace hydrascope::image
