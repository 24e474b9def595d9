// The type of sums over tokens, computed and kept: a running sum of 8161 ones stops at 256 in
// bfloat16 and at 2048 in float16.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace hydrascope::model {

/// float32 for the half types, else x's own.
inline at::ScalarType compute_type(const at::Tensor& x) {
  const bool half = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  return half ? at::kFloat : x.scalar_type();
}

inline at::Tensor to_compute_type(const at::Tensor& x) { return x.to(compute_type(x)); }

/// Does autograd record, and does one of `tensors` need a gradient?
inline bool wants_gradient(at::ArrayRef<at::Tensor> tensors) {
  return at::GradMode::is_enabled() &&
         std::ranges::any_of(tensors, [](const at::Tensor& t) { return t.requires_grad(); });
}

}  // namespace hydrascope::model
