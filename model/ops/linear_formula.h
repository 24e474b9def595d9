// Linear attention for any feature map in ATen's operations: the equations of linear_attention.h,
// written once for the plain form, the rows of the map and the chunked form with its gradient.
#pragma once

#include "model/attention/compute_type.h"
#include "model/attention/linear/feature_map.h"
#include "model/attention/token_scale.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace hydrascope::model::ops {

/// The sums of a map over the tokens of a grid. Maps that give logarithms ignore the normaliser.
/// Tensors are in the type of the computation; u is the output of the map's network.
class LinearFormula {
 public:
  LinearFormula(const FeatureMap& map, const kernels::linear_attention::Normaliser& normaliser,
                const TokenGrid& grid, const TokenWeights& weights);

  /// Features, or their logarithms, of tokens first .. first + u.size(2).
  [[nodiscard]] at::Tensor values(const at::Tensor& u, Side side, std::int64_t first) const;
  /// M (B, H, F) of the values of keys, a constant of the gradient; undefined for plain features.
  [[nodiscard]] at::Tensor maximum(const at::Tensor& values) const;
  /// b (B, H, n, F) and a (B, H, n, F) of values.
  [[nodiscard]] at::Tensor key_features(const at::Tensor& values, const at::Tensor& maximum,
                                        std::int64_t first) const;
  [[nodiscard]] at::Tensor query_features(const at::Tensor& values,
                                          const at::Tensor& maximum) const;
  /// m (B, H, n, 1) of a.z; undefined when there is no division.
  [[nodiscard]] at::Tensor denominator(const at::Tensor& az) const;
  /// numerators (B, H, n, any) / m of queries a and z (B, H, F).
  [[nodiscard]] at::Tensor normalised(const at::Tensor& numerators, const at::Tensor& a,
                                      const at::Tensor& z) const;

  /// y (B, H, N, d) in v's dtype, tokens as rows, and the sums as `empty_linear_outputs` lays them
  /// out. Chunks of tokens depend on F alone, so a result depends neither on the batch nor on the
  /// threads' number. Memory O(N d + F d).
  [[nodiscard]] std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& q, const at::Tensor& k,
                                                           const at::Tensor& v) const;
  /// The gradients of q, k and v; features are made again.
  [[nodiscard]] std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(
      const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& sums,
      const at::Tensor& grad_y) const;

 private:
  const FeatureMap& map_;
  kernels::linear_attention::Normaliser normaliser_;
  TokenGrid grid_;
  TokenWeights weights_;
  bool exponential_;
  bool divides_;  ///< whether there is an m at all
};

/// Tokens of a chunk: features of some 256 KB per head, and enough tokens for efficient products.
constexpr std::int64_t chunk_tokens(std::int64_t feature_dim) {
  return std::max<std::int64_t>(64,
                                (std::int64_t{1} << 16) / std::max<std::int64_t>(1, feature_dim));
}

}  // namespace hydrascope::model::ops
