// Hydra attention in ATen's operations: the forward of float64 and the CPU's backward.
#pragma once

#include "model/ops/hydra_attention.h"

namespace hydrascope::model::ops {

/// The equations of hydra_attention.h in `compute_type`, on any device; saved is c.
HydraForward hydra_formula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& feature_scale, const HydraOptions& options);
HydraBackward hydra_formula_backward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                     const at::Tensor& feature_scale, const at::Tensor& saved,
                                     const at::Tensor& grad_y, bool with_feature_scale,
                                     const HydraOptions& options);

}  // namespace hydrascope::model::ops
