#include "model/attention/hydra_attention.h"

#include "model/attention/feature_recomputation.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <string>
#include <utility>

namespace hydrascope::model {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// sum_t w_t x_t over the tokens of x (B, N, D): (B, 1, D).
Tensor weighted_sum(const Tensor& x, std::int64_t num_prefix, const TokenWeights& weights) {
  const Tensor patches =
      x.narrow(1, num_prefix, x.size(1) - num_prefix).sum(1, /*keepdim=*/true) * weights.patch;
  if (num_prefix == 0) return patches;
  return x.narrow(1, 0, num_prefix).sum(1, /*keepdim=*/true) * weights.prefix + patches;
}

/// w_t x_t; x itself where all weights are one.
Tensor weighted(const Tensor& x, std::int64_t num_prefix, const TokenWeights& weights) {
  if (weights.prefix == 1 && weights.patch == 1) return x;
  return at::cat({x.narrow(1, 0, num_prefix) * weights.prefix,
                  x.narrow(1, num_prefix, x.size(1) - num_prefix) * weights.patch},
                 1);
}

class HydraFunction : public torch::autograd::Function<HydraFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        std::int64_t num_prefix, const TokenWeights& weights,
                        const HydraSettings& settings) {
    const Tensor kh = settings.phi_k.forward(to_compute_type(k), settings.kernel);
    const Tensor c = weighted_sum(kh * to_compute_type(v), num_prefix, weights);
    context->save_for_backward({q, k, v, c});
    auto& data = context->saved_data;
    data["num_prefix"] = num_prefix;
    data["weights"] = std::vector<double>{weights.prefix, weights.patch};
    data["phi_q"] = std::string(settings.phi_q.name);
    data["phi_k"] = std::string(settings.phi_k.name);
    data["policy"] = static_cast<std::int64_t>(settings.kernel.policy);
    data["eps"] = settings.kernel.eps;
    data["constant_small_tokens"] = settings.kernel.constant_small_tokens;
    return (settings.phi_q.forward(to_compute_type(q), settings.kernel) * c).to(v.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivatives();
    const variable_list saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const std::int64_t num_prefix = data["num_prefix"].toInt();
    const std::vector<double> w = data["weights"].toDoubleVector();
    const TokenWeights weights{w[0], w[1]};
    const HydraKernel& phi_q = find_hydra_kernel(data["phi_q"].toStringRef());
    const HydraKernel& phi_k = find_hydra_kernel(data["phi_k"].toStringRef());
    const HydraKernelSettings settings{static_cast<EpsPolicy>(data["policy"].toInt()),
                                       data["eps"].toDouble(),
                                       data["constant_small_tokens"].toBool()};
    const Tensor q = to_compute_type(saved[0]);
    const Tensor k = to_compute_type(saved[1]);
    const Tensor v = to_compute_type(saved[2]);
    const Tensor& c = saved[3];
    const Tensor g = to_compute_type(gradients[0]);
    const Tensor qh = phi_q.forward(q, settings);
    const Tensor dc = (qh * g).sum(1, /*keepdim=*/true);
    const Tensor dq = phi_q.vjp(q, qh, g * c, settings);
    const Tensor kh = phi_k.forward(k, settings);
    const Tensor dv = weighted(dc * kh, num_prefix, weights);
    const Tensor dk = phi_k.vjp(k, kh, weighted(dc * v, num_prefix, weights), settings);
    return {dq.to(saved[0].scalar_type()),
            dk.to(saved[1].scalar_type()),
            dv.to(saved[2].scalar_type()),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

}  // namespace

Tensor hydra_attention_reference(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const TokenGrid& grid, const TokenWeights& weights,
                                 const HydraSettings& settings) {
  const Tensor qh = settings.phi_q.forward(to_compute_type(q), settings.kernel);
  const Tensor kh = settings.phi_k.forward(to_compute_type(k), settings.kernel);
  return (qh * weighted_sum(kh * to_compute_type(v), grid.num_prefix, weights)).to(v.scalar_type());
}

Tensor hydra_attention(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                       const TokenWeights& weights, const HydraSettings& settings) {
  if (wants_gradient({q, k, v}))
    return HydraFunction::apply(q, k, v, grid.num_prefix, weights, settings);
  return hydra_attention_reference(q, k, v, grid, weights, settings);
}

HydraMixer::HydraMixer(const HydraSettings& settings, TokenScale scale,
                       const TokenGrid& training_grid, Tensor feature_scale)
    : settings_(settings),
      scale_(scale),
      training_grid_(training_grid),
      feature_scale_(std::move(feature_scale)) {}

TokenWeights HydraMixer::token_weights(const TokenGrid& grid) const {
  const double held = settings_.phi_q.token_exponent + settings_.phi_k.token_exponent;
  return model::token_weights(scale_, training_grid_, grid, std::max(0.0, 1 - held));
}

FusedMixing HydraMixer::fused() const {
  const auto norm_of = [](const HydraKernel& kernel) {
    return kernel.name == "cosine" ? kernels::hydra::Norm::l2 : kernels::hydra::Norm::l1;
  };
  for (const HydraKernel* kernel : {&settings_.phi_q, &settings_.phi_k}) {
    if (kernel->name != "cosine" && kernel->name != "l1") return {};
  }
  FusedHydra hydra;
  hydra.kernel.norm_q = norm_of(settings_.phi_q);
  hydra.kernel.norm_k = norm_of(settings_.phi_k);
  hydra.kernel.eps = static_cast<float>(settings_.kernel.eps);
  switch (settings_.kernel.policy) {
    case EpsPolicy::max: hydra.kernel.eps_rule = kernels::hydra::Eps::max; break;
    case EpsPolicy::rsqrt: hydra.kernel.eps_rule = kernels::hydra::Eps::rsqrt; break;
    case EpsPolicy::add: hydra.kernel.eps_rule = kernels::hydra::Eps::add; break;
  }
  hydra.feature_scale = feature_scale_;
  return hydra;
}

Tensor HydraMixer::mix(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                       Kernels kernels) {
  const TokenWeights weights = token_weights(grid);
  const auto attention =
      kernels == Kernels::reference ? hydra_attention_reference : hydra_attention;
  const Tensor values = merge_heads(v);
  if (!feature_scale_.defined())
    return attention(merge_heads(q), merge_heads(k), values, grid, weights, settings_);
  // In the type of the computation until the scale is in: a large c may be what it makes small.
  return (attention(merge_heads(q), merge_heads(k), to_compute_type(values), grid, weights,
                    settings_) *
          feature_scale_)
      .to(v.scalar_type());
}

Tensor HydraMixer::attention_rows(const Tensor&, const Tensor&, const TokenGrid&, std::int64_t,
                                  std::int64_t) {
  return {};
}

Tensor HydraMixer::terms(const Tensor& k, const Tensor& v, const TokenGrid& grid) const {
  const TokenWeights weights = token_weights(grid);
  const Tensor kh = settings_.phi_k.forward(to_compute_type(merge_heads(k)), settings_.kernel);
  const Tensor values = to_compute_type(merge_heads(v));
  if (wants_gradient({kh, values})) return weighted(kh * values, grid.num_prefix, weights);
  // In place: at 8161 tokens of 768 features each copy takes 25 MB.
  kh.mul_(values);
  if (weights.prefix != 1) kh.narrow(1, 0, grid.num_prefix).mul_(weights.prefix);
  if (weights.patch != 1)
    kh.narrow(1, grid.num_prefix, kh.size(1) - grid.num_prefix).mul_(weights.patch);
  return kh;
}

Tensor HydraMixer::global_terms(const Tensor& k, const Tensor& v, const TokenGrid& grid) const {
  const Tensor all = terms(k, v, grid);
  return feature_scale_.defined() ? all * feature_scale_ : all;
}

Tensor HydraMixer::gates(const Tensor& q, std::int64_t first, std::int64_t count) const {
  const Tensor qh = settings_.phi_q.forward(to_compute_type(merge_heads(q)), settings_.kernel)
                        .narrow(1, first, count);
  return feature_scale_.defined() ? qh * feature_scale_ : qh;
}

Tensor HydraMixer::mix_rows(const Tensor& q, const Tensor& k, const Tensor& v,
                            const TokenGrid& grid, std::int64_t first, std::int64_t count) {
  return (gates(q, first, count) * terms(k, v, grid).sum(1, /*keepdim=*/true)).to(v.scalar_type());
}

Tensor HydraMixer::weighted_rows(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                                 const TokenGrid& grid, std::int64_t first, std::int64_t count) {
  return head_products(gates(q, first, count) * g, split_heads(terms(k, v, grid), v.size(1)));
}

MixerCost hydra_cost(const MixerSize& size, double kernel_multiply_adds_per_element) {
  const double elements =
      static_cast<double>(size.num_tokens()) * static_cast<double>(size.embed_dim);
  return {2 * elements * (2 + kernel_multiply_adds_per_element),
          4 * elements * static_cast<double>(size.bytes_per_element) +
              4 * static_cast<double>(size.embed_dim)};
}

}  // namespace hydrascope::model
