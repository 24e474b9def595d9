#include "model/ops/linear_features.h"

#include <ATen/ATen.h>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
using kernels::linear_attention::Feature;

Tensor row_sum(const Tensor& x) { return x.sum(-1, /*keepdim=*/true); }
Tensor row_norm(const Tensor& x) {
  return at::linalg_vector_norm(x, 2, at::IntArrayRef{-1}, /*keepdim=*/true);
}

/// J^T g of log_softmax(u).
Tensor log_softmax_vjp(const Tensor& u, const Tensor& g) { return g - u.softmax(-1) * row_sum(g); }

/// J^T g of u - max(u): the maximum's share goes to the values that attain it, evenly.
Tensor centred_vjp(const Tensor& u, const Tensor& g) {
  const Tensor most = (u == u.amax(-1, /*keepdim=*/true)).to(g.scalar_type());
  return g - most * (row_sum(g) / row_sum(most));
}

}  // namespace

Tensor map_features(const Tensor& u, const LinearOptions& options) {
  switch (options.map()) {
    // exp(u) - 1 + 1 would lose what is small: a tenth of its value at u = -15.
    case Feature::elu_plus_one: return at::where(u > 0, u + 1, u.clamp_max(0).exp());
    case Feature::relu: return u.relu();
    case Feature::unit: return u / row_norm(u).clamp_min(options.unit_eps);
    case Feature::exp: return u;
    case Feature::exp_pair: return at::cat({u, -u}, -1);
    case Feature::softmax_pair: return at::cat({u.log_softmax(-1), (-u).log_softmax(-1)}, -1);
    case Feature::softmax_both: return at::cat({2 * u, -2 * u}, -1).log_softmax(-1);
    case Feature::exp_centred:
      return at::cat({u - u.amax(-1, /*keepdim=*/true), u.amin(-1, /*keepdim=*/true) - u}, -1);
  }
  return u;
}

Tensor map_features_vjp(const Tensor& u, const Tensor& gradient, const LinearOptions& options) {
  const std::int64_t width = u.size(-1);
  const auto upper = [&](const Tensor& x) { return x.narrow(-1, 0, width); };
  const auto lower = [&](const Tensor& x) { return x.narrow(-1, width, width); };
  switch (options.map()) {
    case Feature::elu_plus_one: return at::where(u > 0, gradient, gradient * u.clamp_max(0).exp());
    case Feature::relu: return gradient * (u > 0).to(gradient.scalar_type());
    case Feature::unit: {
      // A row below eps counts as constant: 1 / eps would be a spike of a million.
      const Tensor norm = row_norm(u);
      const Tensor r = norm.clamp_min(options.unit_eps);
      const Tensor unit = u / r;
      return ((gradient - unit * row_sum(unit * gradient)) / r)
          .masked_fill(norm < options.unit_eps, 0);
    }
    case Feature::exp: return gradient;
    case Feature::exp_pair: return upper(gradient) - lower(gradient);
    case Feature::softmax_pair:
      return log_softmax_vjp(u, upper(gradient)) - log_softmax_vjp(-u, lower(gradient));
    case Feature::softmax_both: {
      const Tensor t = log_softmax_vjp(at::cat({2 * u, -2 * u}, -1), gradient);
      return 2 * (upper(t) - lower(t));
    }
    case Feature::exp_centred:
      return centred_vjp(u, upper(gradient)) - centred_vjp(-u, lower(gradient));
  }
  return gradient;
}

}  // namespace hydrascope::model::ops
