// The feature maps of kernels/linear_attention/linear_attention.h in ATen's operations, and their
// vector-Jacobian products, row by row over the last dimension.
#pragma once

#include "model/ops/linear_attention.h"

namespace hydrascope::model::ops {

/// Features of u (..., w), or their exponents where the map is exponential: (..., F).
at::Tensor map_features(const at::Tensor& u, const LinearOptions& options);

/// dL/du from dL/d(map_features(u)).
at::Tensor map_features_vjp(const at::Tensor& u, const at::Tensor& gradient,
                            const LinearOptions& options);

}  // namespace hydrascope::model::ops
