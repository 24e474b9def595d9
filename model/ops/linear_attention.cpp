#include "model/ops/linear_attention.h"

#include <ATen/ATen.h>

#include <utility>

namespace hydrascope::model {

std::optional<kernels::linear_attention::Rule> kernel_rule(const FeatureMap& map,
                                                           const Normaliser& normaliser) {
  const std::optional<FusedFeature> fused = map.fused();
  if (!fused || normaliser.rule == Normaliser::Rule::signed_clamp) return std::nullopt;
  return kernels::linear_attention::Rule{fused->feature, normaliser, fused->unit_eps};
}

}  // namespace hydrascope::model

namespace hydrascope::model::ops {
namespace {

using at::Tensor;

/// S, z and M as views of the vector that holds them.
struct SumViews {
  SumViews(const Tensor& sums, const Tensor& q, const Tensor& v) {
    const std::int64_t heads = q.size(0) * q.size(1);
    const std::int64_t columns = v.size(3);
    const std::int64_t features = sums.numel() / (heads * (columns + 2));
    const auto part = [&](std::int64_t first, std::int64_t width) {
      return sums.narrow(0, heads * features * first, heads * features * width);
    };
    s = part(0, columns).view({q.size(0), q.size(1), features, columns});
    z = part(columns, 1).view({q.size(0), q.size(1), features});
    maximum = part(columns + 1, 1).view({q.size(0), q.size(1), features});
  }
  Tensor s;        ///< (B, H, F, d)
  Tensor z;        ///< (B, H, F)
  Tensor maximum;  ///< (B, H, F)
};

/// Tokens first .. first + count, to compute with.
Tensor chunk_of(const Tensor& x, std::int64_t first, std::int64_t count) {
  return to_compute_type(x.narrow(2, first, count));
}

/// a (B, H, n, F) times z (B, H, F) -> (B, H, n, 1).
Tensor times_column(const Tensor& a, const Tensor& z) { return a.matmul(z.unsqueeze(-1)); }

}  // namespace

LinearSums::LinearSums(FeatureMapPtr map, const Normaliser& normaliser, const TokenGrid& grid,
                       std::optional<TokenWeights> weights)
    : map_(std::move(map)),
      normaliser_(normaliser),
      grid_(grid),
      weights_(weights ? *weights : map_->token_weights(grid)),
      rule_(kernel_rule(*map_, normaliser)),
      exponential_(map_->values() == FeatureMap::Values::logarithms),
      divides_(exponential_ || normaliser.rule != Normaliser::Rule::none) {}

AttentionForward LinearSums::forward(const AttentionInputs& in, bool save) const {
  const auto kernels = kernels_of(in.q.device().type()).linear;
  return rule_ && kernels != nullptr ? kernels(in, save, *this) : formula(in);
}

void LinearSums::check(const AttentionInputs& in) const {
  if (rule_) check_tokens(kName, in.q, in.k, in.v, /*one_width=*/false, weights_.num_prefix);
}

Tensor LinearSums::empty_sums(const AttentionInputs& in) const {
  const c10::SymInt features =
      in.q.sym_size(3) * kernels::linear_attention::feature_dim(rule().feature, 1);
  return at::empty_symint({in.q.sym_size(0) * in.q.sym_size(1) * features * (in.v.sym_size(3) + 2)},
                          in.q.options().dtype(compute_type(in.q)));
}

Tensor LinearSums::values(const Tensor& u, Side side, std::int64_t first) const {
  return (*map_)(to_compute_type(u), side, {first, grid_});
}

Tensor LinearSums::maximum(const Tensor& values) const {
  return exponential_ ? values.detach().amax(2) : Tensor();
}

Tensor LinearSums::key_features(const Tensor& values, const Tensor& maximum,
                                std::int64_t first) const {
  return weighted(exponential_ ? (values - maximum.unsqueeze(2)).exp() : values,
                  weights_.from(first));
}

Tensor LinearSums::query_features(const Tensor& values, const Tensor& maximum) const {
  if (!exponential_) return values;
  const Tensor shifted = values + maximum.unsqueeze(2);
  return (shifted - shifted.detach().amax(-1, /*keepdim=*/true)).exp();
}

Tensor LinearSums::denominator(const Tensor& az) const {
  if (exponential_) return az;
  switch (normaliser_.rule) {
    case Normaliser::Rule::add_eps: return az + normaliser_.eps;
    case Normaliser::Rule::signed_clamp: {
      const Tensor eps = at::full_like(az, normaliser_.eps);
      return at::where(az.abs() < normaliser_.eps, at::where(az < 0, -eps, eps), az);
    }
    case Normaliser::Rule::none: break;
  }
  return {};
}

Tensor LinearSums::normalised(const Tensor& numerators, const Tensor& a, const Tensor& z) const {
  return divides_ ? numerators / denominator(times_column(a, z)) : numerators;
}

AttentionForward LinearSums::formula(const AttentionInputs& in) const {
  const auto& [q, k, v, scale] = in;
  Tensor y = empty_token_rows(v);
  const at::TensorOptions kind = q.options().dtype(compute_type(q));
  if (q.numel() == 0 || v.numel() == 0) return {y.zero_(), at::zeros({0}, kind)};
  // No tokens: only F is asked for.
  const std::int64_t features = values(k.narrow(2, 0, 0), Side::key, 0).size(-1);
  const Tensor sums = at::zeros({q.size(0) * q.size(1) * features * (v.size(3) + 2)}, kind);
  const SumViews views(sums, q, v);
  for_token_chunks(k.size(2), chunk_tokens(features), [&](std::int64_t first, std::int64_t count) {
    const Tensor chunk = values(k.narrow(2, first, count), Side::key, first);
    if (exponential_) {
      Tensor most = maximum(chunk);
      if (first > 0) {  // a raised maximum rescales the sums so far
        most = at::maximum(views.maximum, most);
        const Tensor factor = (views.maximum - most).exp();
        views.s.mul_(factor.unsqueeze(-1));
        views.z.mul_(factor);
      }
      views.maximum.copy_(most);
    }
    const Tensor b = key_features(chunk, views.maximum, first);
    views.s.add_(b.transpose(-2, -1).matmul(chunk_of(v, first, count)));
    views.z.add_(b.sum(2));
  });
  for_token_chunks(q.size(2), chunk_tokens(features), [&](std::int64_t first, std::int64_t count) {
    const Tensor a =
        query_features(values(q.narrow(2, first, count), Side::query, first), views.maximum);
    y.narrow(2, first, count).copy_(normalised(a.matmul(views.s), a, views.z));
  });
  return {y, sums};
}

AttentionBackward LinearSums::backward(const AttentionInputs& in,
                                       const AttentionSaved& saved) const {
  const auto& [q, k, v, scale] = in;
  Tensor dq = empty_token_rows(q);
  Tensor dk = empty_token_rows(k);
  Tensor dv = empty_token_rows(v);
  if (q.numel() == 0 || v.numel() == 0) return {dq.zero_(), dk.zero_(), dv.zero_(), {}};
  const SumViews views(saved.sums, q, v);
  const std::int64_t features = views.z.size(2);
  const Tensor ds = at::zeros_like(views.s);
  const Tensor dz = at::zeros_like(views.z);

  for_token_chunks(q.size(2), chunk_tokens(features), [&](std::int64_t first, std::int64_t count) {
    const TokenSpan span{first, grid_};
    const Tensor u = chunk_of(q, first, count);
    const Tensor a = query_features((*map_)(u, Side::query, span), views.maximum);
    const Tensor az = divides_ ? times_column(a, views.z) : Tensor();
    const Tensor m = divides_ ? denominator(az) : Tensor();
    Tensor gh = chunk_of(saved.grad_y, first, count);
    if (divides_) gh = gh / m;
    Tensor da = gh.matmul(views.s.transpose(-2, -1));
    ds.add_(a.transpose(-2, -1).matmul(gh));
    if (divides_) {
      // g . y with y unrounded: da is a difference whose error 1 / m may enlarge.
      Tensor delta = (gh * (a.matmul(views.s) / m)).sum(-1, /*keepdim=*/true);
      if (!exponential_ && normaliser_.rule == Normaliser::Rule::signed_clamp)
        delta = delta.masked_fill(az.abs() < normaliser_.eps, 0);  // there m is a constant
      da.sub_(delta * views.z.unsqueeze(2));
      dz.sub_((delta * a).sum(2));
    }
    dq.narrow(2, first, count).copy_(map_->vjp(u, exponential_ ? a * da : da, Side::query, span));
  });

  for_token_chunks(k.size(2), chunk_tokens(features), [&](std::int64_t first, std::int64_t count) {
    const TokenSpan span{first, grid_};
    const Tensor u = chunk_of(k, first, count);
    const Tensor b = key_features((*map_)(u, Side::key, span), views.maximum, first);
    const Tensor db = chunk_of(v, first, count).matmul(ds.transpose(-2, -1)).add_(dz.unsqueeze(2));
    dv.narrow(2, first, count).copy_(b.matmul(ds));
    // Exponentials hold w_t already; plain features get it here.
    const Tensor gradient = exponential_ ? b * db : weighted(db, weights_.from(first));
    dk.narrow(2, first, count).copy_(map_->vjp(u, gradient, Side::key, span));
  });
  return {dq, dk, dv, {}};
}

}  // namespace hydrascope::model::ops
