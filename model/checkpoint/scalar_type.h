// File dtypes as LibTorch's.
#pragma once

#include "kernels/error.h"
#include "model/checkpoint/formats/safetensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include <cstring>
#include <string>

namespace hydrascope::checkpoint {

/// The scalar type of floating-point weights. Throws Error(unsupported_format) that names `tensor`
/// and `file` for every other dtype.
inline at::ScalarType scalar_type(Dtype dtype, const std::string& tensor,
                                  const std::string& file = {}) {
  switch (dtype) {
    case Dtype::F32: return at::kFloat;
    case Dtype::F16: return at::kHalf;
    case Dtype::BF16: return at::kBFloat16;
    case Dtype::F64: return at::kDouble;
    case Dtype::F8_E4M3: return at::kFloat8_e4m3fn;
    case Dtype::F8_E5M2: return at::kFloat8_e5m2;
    case Dtype::F8_E4M3FNUZ: return at::kFloat8_e4m3fnuz;
    case Dtype::F8_E5M2FNUZ: return at::kFloat8_e5m2fnuz;
    default:
      throw Error(
          ErrorCode::unsupported_format,
          (file.empty() ? "" : "tensor " + tensor + ": ") +
              "expected F32, F16, BF16, F64 or a float8, found " + std::string(name(dtype)),
          file.empty() ? tensor : file,
          file.empty() ? "" : "in Python, save the weights as float32, float16 or bfloat16");
  }
}

/// A copy, as the file's bytes may lie at any alignment. Throws as `scalar_type` does.
inline at::Tensor copy_of(const TensorView& view, const std::string& file = {}) {
  at::Tensor copy = at::empty(view.shape, scalar_type(view.dtype, view.name, file));
  if (!view.data.empty()) std::memcpy(copy.mutable_data_ptr(), view.data.data(), view.data.size());
  return copy;
}

/// Whether it is a float of eight bits, with which LibTorch computes nothing.
inline bool is_float8(Dtype dtype) {
  return dtype == Dtype::F8_E4M3 || dtype == Dtype::F8_E5M2 || dtype == Dtype::F8_E4M3FNUZ ||
         dtype == Dtype::F8_E5M2FNUZ;
}

}  // namespace hydrascope::checkpoint
