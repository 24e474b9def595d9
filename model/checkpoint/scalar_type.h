// Dtypes of files as LibTorch's.
#pragma once

#include "kernels/error.h"
#include "model/checkpoint/formats/safetensors.h"

#include <c10/core/ScalarType.h>

#include <string>

namespace hydrascope::checkpoint {

/// The scalar type of floating-point weights; throws Error(unsupported_format) for every other
/// dtype.
inline at::ScalarType scalar_type(Dtype dtype, const std::string& tensor) {
  switch (dtype) {
    case Dtype::F32: return at::kFloat;
    case Dtype::F16: return at::kHalf;
    case Dtype::BF16: return at::kBFloat16;
    case Dtype::F64: return at::kDouble;
    default:
      throw Error(ErrorCode::unsupported_format,
                  "expected F32, F16, BF16 or F64, found " + std::string(name(dtype)), tensor);
  }
}

}  // namespace hydrascope::checkpoint
