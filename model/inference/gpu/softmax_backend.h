// LibTorch's fused softmax attention by the backend that is fastest on this GPU for the shape at
// hand.
#pragma once

#include "kernels/device/stream.h"
#include "model/inference/backend_choice.h"

#include <ATen/core/Tensor.h>

#include <string>

namespace hydrascope::model::inference {

class SoftmaxBackend {
 public:
  /// `deterministic`: the first backend that runs, in a fixed order, instead of the fastest.
  SoftmaxBackend(kernels::device::Stream stream, bool deterministic);

  /// softmax(q k^T) v for (B, H, N, d) with q already scaled. Measures all backends when it meets a
  /// shape for the first time: not every backend serves the last block's few queries and many keys.
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);
  /// "flash", "cudnn", "efficient" or "math", or several, "cudnn/efficient", in the order of the
  /// shapes that they were chosen for; empty before the first call.
  [[nodiscard]] std::string name() const;

 private:
  kernels::device::Stream stream_;
  BackendChoice choice_;
};

}  // namespace hydrascope::model::inference
