// Images on a device, cut into the rows that the patch embedding multiplies.
#pragma once

#include "kernels/device/stream.h"
#include "model/attention/token_grid.h"
#include "model/inference/gpu/device_weights.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <utility>

namespace hydrascope::model::inference {

/// Images as bytes, normalised on the device: (value / 255 - mean) / std.
struct PixelImages {
  at::Tensor pixels;  ///< uint8 (B, height, width, 3), contiguous
  std::array<double, 3> mean{};
  std::array<double, 3> std{};
  std::int64_t height = 0;  ///< of the model's input, at least the pixels'; 0 beyond them
  std::int64_t width = 0;
};

/// The rows of a batch: the patches of all pictures, then the patches of all overviews.
class DevicePatches {
 public:
  /// `rows`: room for `batch` images, in the type of `weights`, which must outlive it.
  DevicePatches(const DeviceWeights& weights, const TokenGrid& grid, std::int64_t batch,
                at::Tensor rows, kernels::device::Stream stream)
      : weights_(weights), grid_(grid), batch_(batch), rows_(std::move(rows)), stream_(stream) {}

  /// float32 (count, C, H, W), normalised.
  void cut(const at::Tensor& images) const;
  void cut(const PixelImages& images) const;

 private:
  /// rows x columns patches of float32 (count, C, H, W), behind `first` of every image, by LibTorch.
  void cut(const at::Tensor& images, std::int64_t rows, std::int64_t columns,
           std::int64_t first) const;
  void cut_overview(const at::Tensor& images) const;

  const DeviceWeights& weights_;
  TokenGrid grid_;
  std::int64_t batch_;
  at::Tensor rows_;
  kernels::device::Stream stream_;
};

}  // namespace hydrascope::model::inference
