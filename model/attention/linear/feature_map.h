// Feature maps phi of linear attention: sim(q, k) = phi(q) . phi(k).
#pragma once

#include "kernels/linear_attention/linear_attention.h"
#include "model/attention/kernel_form.h"
#include "model/attention/token_grid.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace hydrascope::model {

/// A feature map as the kernels know it.
struct FusedFeature {
  kernels::linear_attention::Feature feature;
  float unit_eps = 1e-6F;  ///< eps of Feature::unit
  HeadNetwork query = {};
  HeadNetwork key = {};
};

/// The side of the dot product that a map is asked for.
enum class Side { query, key };

/// The places of the tokens that a map is given: `first`, `first + 1`, ... of `grid`.
struct TokenSpan {
  std::int64_t first = 0;
  const TokenGrid& grid;
};

/// A map of every token on its own: a formula, behind a network if the map has parameters. The
/// network's u is kept for the backward pass, features are made again. Immutable once built, apart
/// from the parameters' values; shared with the autograd graph, hence reference counted.
class FeatureMap : public torch::CustomClassHolder {
 public:
  /// Maps whose features are exponentials give the exponents: only then can the maximum be taken
  /// out exactly, and a sum of exponentials neither overflows nor vanishes.
  enum class Values { features, logarithms };

  [[nodiscard]] virtual Values values() const { return Values::features; }
  /// u (B, H, N, w) of x (B, H, N, d), in x's type and by operations that autograd differentiates.
  [[nodiscard]] virtual at::Tensor network(const at::Tensor& x, Side) const { return x; }
  /// The formula, without parameters: u (B, H, n, w) of float32 or float64 -> (B, H, n, F),
  /// differentiable in u.
  [[nodiscard]] virtual at::Tensor operator()(const at::Tensor& u, Side side,
                                              const TokenSpan& span) const = 0;
  /// dL/du for dL/d(features); by autograd unless the map knows better.
  [[nodiscard]] virtual at::Tensor vjp(const at::Tensor& u, const at::Tensor& gradient, Side side,
                                       const TokenSpan& span) const;
  /// The kernels' name for this map, if they have one.
  [[nodiscard]] virtual std::optional<FusedFeature> fused() const { return std::nullopt; }
  /// w_t of keys that are weighted by their token.
  [[nodiscard]] virtual TokenWeights token_weights(const TokenGrid&) const { return {}; }
};

using FeatureMapPtr = c10::intrusive_ptr<FeatureMap>;

/// u = scale * (x W + b), in x's type.
at::Tensor head_network(const HeadNetwork& network, const at::Tensor& x);

/// A map that the kernels know, in ATen's operations: kernels/linear_attention/linear_attention.h.
FeatureMapPtr kernel_map(FusedFeature map);

/// The features of u in u's own type, where none of them exceeds 1 and no exponent has to be taken
/// out; undefined for other maps.
at::Tensor bounded_features(kernels::linear_attention::Feature feature, const at::Tensor& u);

/// A map of one formula, the same for queries and keys wherever the token lies.
FeatureMapPtr formula_map(FeatureMap::Values values,
                          std::function<at::Tensor(const at::Tensor&)> formula);

}  // namespace hydrascope::model
