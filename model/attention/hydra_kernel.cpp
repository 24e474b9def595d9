#include "model/attention/hydra_kernel.h"

#include "kernels/error.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

namespace hydrascope::model {
namespace {

using at::Tensor;
using Settings = HydraKernelSettings;

Tensor norm_of(const Tensor& x, double order) {
  return at::linalg_vector_norm(x, order, at::IntArrayRef{-1}, /*keepdim=*/true);
}

/// r, what stands in the place of the norm.
Tensor divisor(const Tensor& norm, const Settings& settings) {
  switch (settings.policy) {
    case EpsPolicy::max: return norm.clamp_min(settings.eps);
    case EpsPolicy::rsqrt: return (norm * norm + settings.eps * settings.eps).sqrt();
    case EpsPolicy::add: return norm + settings.eps;
  }
  return norm;
}

/// dr/d|x|
Tensor divisor_slope(const Tensor& norm, const Tensor& r, const Settings& settings) {
  switch (settings.policy) {
    case EpsPolicy::max: return (norm >= settings.eps).to(norm.scalar_type());
    case EpsPolicy::rsqrt: return norm / r;
    case EpsPolicy::add: return at::ones_like(norm);
  }
  return at::ones_like(norm);
}

Tensor normalise_tokens(const Tensor& x, double order, const Settings& settings) {
  const Tensor norm = norm_of(x, order);
  const Tensor r = divisor(norm, settings);
  const bool recorded = at::GradMode::is_enabled() && x.requires_grad();
  if (!settings.constant_small_tokens || !recorded) return x / r;
  // Autograd of this form follows the same rule as `normalise_vjp`.
  const Tensor small = norm.detach() < settings.eps;
  return at::where(small, x.detach(), x) / at::where(small, r.detach(), r);
}

/// (g - (dr/d|x|) (d|x|/dx) (p.g)) / r; for the L2 norm above eps that is (g - p (p.g)) / |x|.
Tensor normalise_vjp(const Tensor& x, const Tensor& p, const Tensor& g, double order,
                     const Settings& settings) {
  const Tensor norm = norm_of(x, order);
  const Tensor r = divisor(norm, settings);
  const Tensor direction = order == 1 ? x.sign() : at::where(norm > 0, x / norm, 0);
  const Tensor along = (p * g).sum(-1, /*keepdim=*/true) * divisor_slope(norm, r, settings);
  const Tensor dx = (g - direction * along) / r;
  return settings.constant_small_tokens ? dx.masked_fill(norm < settings.eps, 0) : dx;
}

Tensor softmax_vjp(const Tensor& p, const Tensor& g, std::int64_t dim) {
  return p * (g - (p * g).sum(dim, /*keepdim=*/true));
}

double root_of_tokens(const Tensor& x) { return std::sqrt(static_cast<double>(x.size(1))); }

}  // namespace

const std::vector<HydraKernel>& hydra_kernels() {
  static const std::vector<HydraKernel> kernels{
      {"cosine", "x / |x|",
       [](const Tensor& x, const Settings& s) { return normalise_tokens(x, 2, s); },
       [](const Tensor& x, const Tensor& p, const Tensor& g, const Settings& s) {
         return normalise_vjp(x, p, g, 2, s);
       }},
      {"l1", "x / sum |x_f|",
       [](const Tensor& x, const Settings& s) { return normalise_tokens(x, 1, s); },
       [](const Tensor& x, const Tensor& p, const Tensor& g, const Settings& s) {
         return normalise_vjp(x, p, g, 1, s);
       }},
      {"mean", "x / sqrt(N)",
       [](const Tensor& x, const Settings&) { return x / root_of_tokens(x); },
       [](const Tensor& x, const Tensor&, const Tensor& g, const Settings&) {
         return g / root_of_tokens(x);
       },
       0.5},
      {"tanh", "tanh(x)", [](const Tensor& x, const Settings&) { return x.tanh(); },
       [](const Tensor&, const Tensor& p, const Tensor& g, const Settings&) {
         return g * (1 - p * p);
       }},
      {"sigmoid", "1 / (1 + exp(-x))", [](const Tensor& x, const Settings&) { return x.sigmoid(); },
       [](const Tensor&, const Tensor& p, const Tensor& g, const Settings&) {
         return g * p * (1 - p);
       }},
      {"relu", "max(x, 0)", [](const Tensor& x, const Settings&) { return x.relu(); },
       [](const Tensor& x, const Tensor&, const Tensor& g, const Settings&) {
         return g * (x > 0).to(g.scalar_type());
       }},
      {"softmax_token", "softmax over the tokens, each feature on its own",
       [](const Tensor& x, const Settings&) { return x.softmax(1); },
       [](const Tensor&, const Tensor& p, const Tensor& g, const Settings&) {
         return softmax_vjp(p, g, 1);
       },
       1},
      {"softmax_feature", "softmax over the features of a token",
       [](const Tensor& x, const Settings&) { return x.softmax(-1); },
       [](const Tensor&, const Tensor& p, const Tensor& g, const Settings&) {
         return softmax_vjp(p, g, -1);
       }},
  };
  return kernels;
}

const HydraKernel& find_hydra_kernel(std::string_view name) {
  const auto found = std::ranges::find(hydra_kernels(), name, &HydraKernel::name);
  if (found == hydra_kernels().end())
    throw Error(ErrorCode::internal, "there is no Hydra kernel '" + std::string(name) + "'");
  return *found;
}

Tensor unit_vectors(const Tensor& x) { return normalise_tokens(x, 2, {}); }

}  // namespace hydrascope::model
