#include "model/inference/gpu/device_patches.h"

#include "kernels/patchify/patchify_cuda.h"
#include "model/position_embedding.h"

#include <ATen/ATen.h>

namespace hydrascope::model::inference {

void DevicePatches::cut(const at::Tensor& images, std::int64_t rows, std::int64_t columns,
                        std::int64_t first) const {
  const std::int64_t patch = weights_.parts.config.patch_size;
  const std::int64_t count = images.size(0);
  const std::int64_t channels = images.size(1);
  const std::int64_t width = weights_.patch_embed.in();
  rows_.view(-1)
      .narrow(0, batch_ * first * width, count * rows * columns * width)
      .view({count, rows, columns, channels, patch, patch})
      .copy_(
          images.view({count, channels, rows, patch, columns, patch}).permute({0, 2, 4, 1, 3, 5}));
}

void DevicePatches::cut_overview(const at::Tensor& images) const {
  const at::Tensor reduced =
      overview_of(images, grid_, weights_.parts.config.patch_size).contiguous();
  cut(reduced, grid_.overview_rows, grid_.overview_columns, grid_.num_patches());
}

void DevicePatches::cut(const at::Tensor& images) const {
  const c10::InferenceMode inference;
  cut(images, grid_.rows, grid_.columns, 0);
  if (grid_.num_overview() > 0) cut_overview(images);
}

void DevicePatches::cut(const PixelImages& images) const {
  const c10::InferenceMode inference;
  std::array<float, 3> scale{};
  std::array<float, 3> shift{};
  for (std::size_t c = 0; c < 3; ++c) {
    scale[c] = static_cast<float>(1 / (255 * images.std[c]));
    shift[c] = static_cast<float>(-images.mean[c] / images.std[c]);
  }
  with_storage(weights_.type, [&]<class T>() {
    kernels::patchify::cuda::PixelParams<T> params{};
    params.pixels = images.pixels.const_data_ptr<std::uint8_t>();
    params.images = images.pixels.size(0);
    params.valid_height = images.pixels.size(1);
    params.valid_width = images.pixels.size(2);
    params.row_bytes = params.valid_width * 3;
    params.image_bytes = params.valid_height * params.row_bytes;
    params.grid_rows = grid_.rows;
    params.grid_columns = grid_.columns;
    params.patch_size = weights_.parts.config.patch_size;
    for (std::size_t c = 0; c < 3; ++c) {
      params.scale[c] = scale[c];
      params.shift[c] = shift[c];
    }
    params.y = static_cast<T*>(rows_.mutable_data_ptr());
    kernels::patchify::cuda::from_pixels(params, stream_);
  });
  if (grid_.num_overview() == 0) return;
  at::Tensor normalised = at::zeros({images.pixels.size(0), 3, images.height, images.width},
                                    images.pixels.options().dtype(at::kFloat));
  at::Tensor valid =
      normalised.narrow(2, 0, images.pixels.size(1)).narrow(3, 0, images.pixels.size(2));
  valid.copy_(images.pixels.permute({0, 3, 1, 2}));
  for (std::int64_t c = 0; c < 3; ++c) {
    const auto at = static_cast<std::size_t>(c);
    valid.select(1, c).mul_(scale[at]).add_(shift[at]);
  }
  cut_overview(normalised);
}

}  // namespace hydrascope::model::inference
