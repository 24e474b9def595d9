// LibTorch's fused softmax attention by the backend that is fastest on this GPU for the shape at
// hand.
#pragma once

#include "kernels/device/stream.h"

#include <ATen/core/Tensor.h>

#include <string>

namespace hydrascope::model::inference {

class SoftmaxBackend {
 public:
  /// `deterministic`: the first that runs, in a fixed order, instead of the fastest.
  SoftmaxBackend(kernels::device::Stream stream, bool deterministic)
      : stream_(stream), deterministic_(deterministic) {}

  /// softmax(q k^T) v for (B, H, N, d) with q already scaled; measures all backends at first.
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);
  /// "flash", "cudnn", "efficient" or "math"; empty before the first call.
  [[nodiscard]] std::string name() const;

 private:
  [[nodiscard]] int choose(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const;

  kernels::device::Stream stream_;
  bool deterministic_;
  int chosen_ = -1;
};

}  // namespace hydrascope::model::inference
