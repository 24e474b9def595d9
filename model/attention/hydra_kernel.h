// The kernels phi of Hydra attention and their vector-Jacobian products. They act on whole tokens,
// x (B, N, D): the cosine of two scalars is only a sign.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model {

/// What replaces the norm |x|, so that a zero token gives 0 and not 0/0.
enum class EpsPolicy {
  max,    ///< max(|x|, eps): the published form, bit for bit, above eps
  rsqrt,  ///< sqrt(|x|^2 + eps^2)
  add     ///< |x| + eps
};

struct HydraKernelSettings {
  EpsPolicy policy = EpsPolicy::max;
  double eps = 1e-6;
  /// Gradient of a token with |x| < eps: 0, because 1/eps is a spike of a million; or exact.
  bool constant_small_tokens = true;
};

/// phi(x) and J^T g; x, p, g are (B, N, D) of float32 or float64, p = phi(x).
struct HydraKernel {
  std::string_view name;
  std::string_view summary;
  at::Tensor (*forward)(const at::Tensor& x, const HydraKernelSettings& settings);
  at::Tensor (*vjp)(const at::Tensor& x, const at::Tensor& p, const at::Tensor& g,
                    const HydraKernelSettings& settings);
  double token_exponent = 0;  ///< e where phi already holds N^-e: `mean` 1/2, `softmax_token` 1
};

/// All kernels: cosine, l1, mean, tanh, sigmoid, relu, softmax_token, softmax_feature.
const std::vector<HydraKernel>& hydra_kernels();
const HydraKernel& find_hydra_kernel(std::string_view name);

/// x / |x| over the last dimension by the `cosine` kernel's default settings, for any shape.
at::Tensor unit_vectors(const at::Tensor& x);

}  // namespace hydrascope::model
