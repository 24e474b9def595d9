#include "model/transform.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace hydrascope::image {
namespace {

/// Bytes of an RGB picture in ATen's or in our own memory: sample (y, x, c) is at
/// `y * row + x * pixel + c * channel`.
struct Pixels {
  const std::uint8_t* data = nullptr;
  std::int64_t row = 0;
  std::int64_t pixel = 3;
  std::int64_t channel = 1;
  at::Tensor owner;  ///< keeps a resized picture alive
};

/// Pillow's NEAREST: the source index is a running sum of the scale, begun at half of it; summing
/// in double, as Pillow does, decides ties the same way.
std::vector<std::int64_t> nearest_indices(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(to));
  double position = scale * 0.5;
  for (std::int64_t& index : indices) {
    index = std::min(static_cast<std::int64_t>(position), from - 1);
    position += scale;
  }
  return indices;
}

at::Tensor resize_nearest(const Picture& picture, Size size) {
  at::Tensor resized = at::empty({size.height, size.width, 3}, at::kByte);
  const std::vector<std::int64_t> rows = nearest_indices(picture.height, size.height);
  const std::vector<std::int64_t> columns = nearest_indices(picture.width, size.width);
  auto* out = resized.mutable_data_ptr<std::uint8_t>();
  for (const std::int64_t y : rows) {
    const std::uint8_t* row = picture.rgb.data() + y * picture.width * 3;
    for (const std::int64_t x : columns) out = std::copy_n(row + x * 3, 3, out);
  }
  return resized.permute({2, 0, 1}).unsqueeze(0);
}

/// (1, 3, height, width) with channels last. ATen's antialiased kernels for bytes are Pillow's
/// algorithm: a pass along the rows, rounding to bytes, a pass along the columns, each left out
/// where the size stays (pytorch/pytorch pull 96651).
at::Tensor resample(const at::Tensor& pixels, Size size, Interpolation interpolation) {
  const std::array<std::int64_t, 2> output{size.height, size.width};
  constexpr bool kAlignCorners = false;
  return interpolation == Interpolation::bicubic
             ? at::_upsample_bicubic2d_aa(pixels, output, kAlignCorners)
             : at::_upsample_bilinear2d_aa(pixels, output, kAlignCorners);
}

at::Tensor resize(const Picture& picture, Size size, Interpolation interpolation) {
  if (interpolation == Interpolation::nearest) return resize_nearest(picture, size);
  const std::int64_t height = picture.height;
  const std::int64_t width = picture.width;
  // from_blob needs a mutable pointer for what is only read.
  auto* data = const_cast<std::uint8_t*>(picture.rgb.data());
  at::Tensor pixels =
      at::from_blob(data, {1, 3, height, width}, {height * width * 3, 1, width * 3, 3}, at::kByte);
  if (resamples_columns_first({height, width}, size)) {
    pixels = resample(pixels, {size.height, width}, interpolation);
  }
  return resample(pixels, size, interpolation);
}

Pixels resized_pixels(const Picture& picture, const TransformPlan& plan,
                      Interpolation interpolation) {
  if (plan.resized == Size{picture.height, picture.width}) {
    return {picture.rgb.data(), std::int64_t{picture.width} * 3, 3, 1, {}};
  }
  const at::Tensor resized = resize(picture, plan.resized, interpolation);
  return {resized.const_data_ptr<std::uint8_t>(), resized.stride(2), resized.stride(3),
          resized.stride(1), resized};
}

/// Where the centred window meets the picture along one edge.
struct Overlap {
  std::int64_t from = 0;   ///< first pixel taken
  std::int64_t to = 0;     ///< where it lands in the window
  std::int64_t count = 0;  ///< how many are taken
};

/// What a picture and a window share; one is inside the other, and the window begins at `start`.
Overlap overlap(std::int64_t picture, std::int64_t window, std::int64_t start) {
  return {std::max<std::int64_t>(0, start), std::max<std::int64_t>(0, -start),
          std::min(picture, window)};
}

/// value -> (value / 255 - mean) / std, rounded to float32 after every step like torchvision's
/// to_tensor and normalize. With bytes going in there are only 256 results a channel.
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
  const at::NoGradGuard no_grad;
  const Pixels pixels = resized_pixels(picture, plan, config.interpolation);
  const Overlap rows = overlap(plan.resized.height, plan.cropped.height, plan.window_top);
  const Overlap columns = overlap(plan.resized.width, plan.cropped.width, plan.window_left);

  at::Tensor cropped = at::empty({plan.cropped.height, plan.cropped.width, 3}, at::kByte);
  auto* out = cropped.mutable_data_ptr<std::uint8_t>();
  std::array<std::uint8_t, 3> fill{};
  for (std::size_t c = 0; c < 3; ++c) fill[c] = fill_value(config.crop_mode, config.mean[c]);
  const auto fill_to = [&](const std::uint8_t* end) {
    while (out != end) out = std::copy_n(fill.begin(), 3, out);
  };
  for (std::int64_t y = 0; y < plan.cropped.height; ++y) {
    const std::uint8_t* end = out + plan.cropped.width * 3;
    const std::int64_t source = y - rows.to;
    if (source >= 0 && source < rows.count) {
      fill_to(out + columns.to * 3);
      const std::uint8_t* in =
          pixels.data + (rows.from + source) * pixels.row + columns.from * pixels.pixel;
      if (pixels.pixel == 3 && pixels.channel == 1) {
        out = std::copy_n(in, columns.count * 3, out);
      } else {
        for (std::int64_t x = 0; x < columns.count; ++x, in += pixels.pixel)
          for (std::int64_t c = 0; c < 3; ++c) *out++ = in[c * pixels.channel];
      }
    }
    fill_to(end);
  }
  return cropped;
}

Picture resized_picture(const Picture& picture, Size size, Interpolation interpolation) {
  const at::NoGradGuard no_grad;
  const at::Tensor rgb =
      resize(picture, size, interpolation).squeeze(0).permute({1, 2, 0}).contiguous();
  const auto* data = rgb.const_data_ptr<std::uint8_t>();
  return {static_cast<int>(size.width), static_cast<int>(size.height), {data, data + rgb.numel()}};
}

at::Tensor normalise(const TransformConfig& config, const at::Tensor& pixels, Size output) {
  const at::NoGradGuard no_grad;
  const std::int64_t height = pixels.size(0);
  const std::int64_t width = pixels.size(1);
  at::Tensor input = at::empty({3, output.height, output.width}, at::kFloat);
  auto* out = input.mutable_data_ptr<float>();
  for (std::size_t c = 0; c < 3; ++c) {
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
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    const auto c = static_cast<std::size_t>(channel);
    result.select(1, channel)
        .mul_(from.std[c] / to.std[c])
        .add_((from.mean[c] - to.mean[c]) / to.std[c]);
  }
  return result;
}

}  // namespace hydrascope::image
