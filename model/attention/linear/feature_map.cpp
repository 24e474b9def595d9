#include "model/attention/linear/feature_map.h"

#include "model/attention/unit_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

namespace hydrascope::model {
namespace {

using at::Tensor;
using kernels::linear_attention::Feature;

Tensor row_sum(const Tensor& x) { return x.sum(-1, /*keepdim=*/true); }

/// J^T g of log_softmax(u).
Tensor log_softmax_vjp(const Tensor& u, const Tensor& g) { return g - u.softmax(-1) * row_sum(g); }

/// J^T g of u - max(u): the maximum's share goes to the values that attain it, evenly.
Tensor centred_vjp(const Tensor& u, const Tensor& g) {
  const Tensor most = (u == u.amax(-1, /*keepdim=*/true)).to(g.scalar_type());
  return g - most * (row_sum(g) / row_sum(most));
}

class KernelMap final : public FeatureMap {
 public:
  explicit KernelMap(FusedFeature map) : map_(std::move(map)), unit_{.eps = map_.unit_eps} {}

  [[nodiscard]] Values values() const override {
    return is_exponential(map_.feature) ? Values::logarithms : Values::features;
  }
  [[nodiscard]] Tensor network(const Tensor& x, Side side) const override {
    return head_network(side == Side::query ? map_.query : map_.key, x);
  }
  [[nodiscard]] std::optional<FusedFeature> fused() const override { return map_; }

  [[nodiscard]] Tensor operator()(const Tensor& u, Side, const TokenSpan&) const override {
    switch (map_.feature) {
      // exp(u) - 1 + 1 would lose small values: a tenth of the value at u = -15.
      case Feature::elu_plus_one: return at::where(u > 0, u + 1, u.clamp_max(0).exp());
      case Feature::relu: return u.relu();
      case Feature::unit: return unit_rows(u, unit_);
      case Feature::exp: return u;
      case Feature::exp_pair: return at::cat({u, -u}, -1);
      case Feature::softmax_pair: return at::cat({u.log_softmax(-1), (-u).log_softmax(-1)}, -1);
      case Feature::softmax_both: return at::cat({2 * u, -2 * u}, -1).log_softmax(-1);
      case Feature::exp_centred:
        return at::cat({u - u.amax(-1, /*keepdim=*/true), u.amin(-1, /*keepdim=*/true) - u}, -1);
    }
    return u;
  }

  [[nodiscard]] Tensor vjp(const Tensor& u, const Tensor& gradient, Side,
                           const TokenSpan&) const override {
    const std::int64_t width = u.size(-1);
    const auto upper = [&](const Tensor& x) { return x.narrow(-1, 0, width); };
    const auto lower = [&](const Tensor& x) { return x.narrow(-1, width, width); };
    switch (map_.feature) {
      case Feature::elu_plus_one:
        return at::where(u > 0, gradient, gradient * u.clamp_max(0).exp());
      case Feature::relu: return gradient * (u > 0).to(gradient.scalar_type());
      case Feature::unit: return unit_rows_vjp(u, unit_rows(u, unit_), gradient, unit_);
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

 private:
  FusedFeature map_;
  kernels::hydra::NormRule unit_;
};

class FormulaMap final : public FeatureMap {
 public:
  FormulaMap(Values values, std::function<Tensor(const Tensor&)> formula)
      : values_(values), formula_(std::move(formula)) {}

  [[nodiscard]] Values values() const override { return values_; }
  [[nodiscard]] Tensor operator()(const Tensor& u, Side, const TokenSpan&) const override {
    return formula_(u);
  }

 private:
  Values values_;
  std::function<Tensor(const Tensor&)> formula_;
};

}  // namespace

Tensor FeatureMap::vjp(const Tensor& u, const Tensor& gradient, Side side,
                       const TokenSpan& span) const {
  // A graph of its own, away from the one that is running backward.
  const at::AutoGradMode record(true);
  const Tensor leaf = u.detach().requires_grad_();
  const auto gradients =
      torch::autograd::grad({(*this)(leaf, side, span)}, {leaf}, {gradient}, /*retain_graph=*/false,
                            /*create_graph=*/false, /*allow_unused=*/true);
  return gradients[0].defined() ? gradients[0] : at::zeros_like(u);
}

Tensor head_network(const HeadNetwork& network, const Tensor& x) {
  Tensor u = x;
  if (network.weight.defined()) {
    const Tensor w = network.weight.to(x.scalar_type());
    // One network for all heads keeps tokens as rows, which is how the kernels read them.
    u = w.dim() == 2 ? x.transpose(1, 2).matmul(w).transpose(1, 2) : x.matmul(w);
  }
  if (network.bias.defined()) {
    const Tensor b = network.bias.to(x.scalar_type());
    u = u + (b.dim() == 1 ? b : b.unsqueeze(1));
  }
  if (network.scale != 1) u = u * network.scale;
  return u.to(x.scalar_type());  // autocast may give products another type
}

FeatureMapPtr kernel_map(FusedFeature map) {
  return c10::make_intrusive<KernelMap>(std::move(map));
}

Tensor bounded_features(Feature feature, const Tensor& u) {
  if (feature == Feature::softmax_pair) return at::cat({u.softmax(-1), (-u).softmax(-1)}, -1);
  if (feature == Feature::softmax_both) return at::cat({2 * u, -2 * u}, -1).softmax(-1);
  return {};
}

FeatureMapPtr formula_map(FeatureMap::Values values, std::function<Tensor(const Tensor&)> formula) {
  return c10::make_intrusive<FormulaMap>(values, std::move(formula));
}

}  // namespace hydrascope::model
