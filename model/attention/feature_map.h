// Feature maps phi of linear attention: sim(q, k) = phi(q) . phi(k).
#pragma once

#include "model/attention/attention.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace hydrascope::model {

/// Which of the two sides of the dot product a map is asked for.
enum class Side { query, key };

/// Where the tokens that a map is given lie: `first`, `first + 1`, ... of `grid`.
struct TokenSpan {
  std::int64_t first = 0;
  const TokenGrid& grid;
};

/// A map applied to every token on its own. Immutable once built, apart from the parameters'
/// values; shared with the autograd graph, hence reference counted.
class FeatureMap : public torch::CustomClassHolder {
 public:
  /// Maps whose features are exponentials give the exponents: only then can the maximum be taken
  /// out exactly, and a sum of exponentials neither overflows nor vanishes.
  enum class Values { features, logarithms };

  [[nodiscard]] virtual Values values() const { return Values::features; }
  /// x (B, H, n, d) of float32 or float64 -> (B, H, n, F), differentiable in x and `parameters()`.
  [[nodiscard]] virtual at::Tensor operator()(const at::Tensor& x, Side side,
                                              const TokenSpan& span) const = 0;
  /// The features of x in its own type, where none of them exceeds 1 and no exponent has to be
  /// taken out; undefined for other maps. Differentiable as above.
  [[nodiscard]] virtual at::Tensor bounded_features(const at::Tensor&, Side) const { return {}; }
  /// The kernels' name for this map, if they have one.
  [[nodiscard]] virtual std::optional<FusedFeature> fused() const { return std::nullopt; }
  /// w_t, where keys are weighted by their token.
  [[nodiscard]] virtual TokenWeights token_weights(const TokenGrid&) const { return {}; }
  /// What the map learns.
  [[nodiscard]] virtual std::vector<at::Tensor> parameters() const { return {}; }
};

using FeatureMapPtr = c10::intrusive_ptr<FeatureMap>;

}  // namespace hydrascope::model
