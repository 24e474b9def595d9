// Images on their way to a model.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hydrascope::model::inference {

/// Images of one size and kind.
struct ImageBatch {
  /// On the CPU: float32 (C, height, width), normalised; or uint8 (h, w, 3), at most as large as
  /// the model's input, to be normalised on the device: (value / 255 - mean) / std, and 0 around
  /// it.
  std::vector<at::Tensor> images;
  /// Instead of `images`: float32 (B, C, height, width), contiguous, on the model's device already.
  at::Tensor on_device;
  std::int64_t height = 0;  ///< of the model's input
  std::int64_t width = 0;
  std::array<double, 3> mean{};  ///< for images as bytes
  std::array<double, 3> std{};
  /// Is told the number of blocks that are done after each of them, on the calling thread, by the CPU's plan
  /// alone; it must not throw. May be empty.
  std::function<void(std::int64_t)> block_done = {};
  /// The one image is the frame behind the one of the last batch, of the same video: engines with a
  /// memory go on; else they begin anew.
  bool goes_on = false;

  [[nodiscard]] bool is_bytes() const {
    return !images.empty() && images.front().scalar_type() == at::kByte;
  }
  [[nodiscard]] std::int64_t size() const {
    return on_device.defined() ? on_device.size(0) : static_cast<std::int64_t>(images.size());
  }
  /// "a batch of 8 images of 224x224"
  [[nodiscard]] std::string describe() const;
  /// Images that are no bytes as one tensor (B, C, height, width), wherever they are.
  [[nodiscard]] at::Tensor stacked() const;
};

}  // namespace hydrascope::model::inference
