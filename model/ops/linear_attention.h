// Linear attention (Katharopoulos et al. 2020, arXiv 2006.16236, equations 4-6), differentiable, for the
// modules with any feature map and for Python with the maps that the kernels know. Per head, with features a_i = phi(q_i), b_t = w_t phi(k_t) in R^F:
//   S = sum_t b_t v_t^T    z = sum_t b_t    y_i = (a_i^T S) / m_i    m_i = a_i . z + eps
// Maps that give exponents U of q and W of k are kept from overflowing exactly, without an eps:
//   M_f = max_t W_tf    b_tf = w_t exp(W_tf - M_f)    a_if = exp(U_if + M_f - max_f(U_if + M_f))
//   m_i = a_i . z
// At the feature that attains the maximum a = 1 and, where w_t = 1, z >= 1, so m_i lies in [1, F N].
// With G = dL/dy the gradient is, M and the maxima being constants of it,
//   gh_i = G_i / m_i    delta_i = (gh_i . y_i)    da_i = S gh_i - delta_i z
//   dS = sum_i a_i gh_i^T    dz = -sum_i delta_i a_i    db_t = w_t (dS v_t + dz)    dv_t = dS^T b_t
// and then through phi. No N x N matrix, and no features of all tokens, exist at any time.
//
// Tensors: q, k (B, H, N, w), the outputs of the map's network, v, y (B, H, N, d), all of one dtype.
// Forward: kernels/linear_attention on the CPU for the maps that it knows, and on a GPU for heads of 64
// in 16-bit types; all else, and the gradient: the formula in ATen's operations, chunk by chunk.
// Tests: tests/model/ops/ops_test.py and tests/model/attention.
#pragma once

#include "model/attention/linear/feature_map.h"
#include "model/ops/attention_sums.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace hydrascope::model {

using kernels::linear_attention::Normaliser;

/// The kernels' rule of a map; nothing if kernels do not know the map or the normaliser.
std::optional<kernels::linear_attention::Rule> kernel_rule(const FeatureMap& map,
                                                           const Normaliser& normaliser);

}  // namespace hydrascope::model

namespace hydrascope::model::ops {

/// The sums of a map over the tokens of a grid. Maps that give logarithms ignore the normaliser.
/// The formula's tensors are in the type of the computation; u is the output of the map's network.
class LinearSums final : public AttentionSums {
 public:
  static constexpr const char* kName = "linear_attention";

  /// Without `weights`: the map's own.
  LinearSums(FeatureMapPtr map, const Normaliser& normaliser, const TokenGrid& grid,
             std::optional<TokenWeights> weights = std::nullopt);

  [[nodiscard]] AttentionForward forward(const AttentionInputs& in, bool save) const override;
  /// Features are made again.
  [[nodiscard]] AttentionBackward backward(const AttentionInputs& in,
                                           const AttentionSaved& saved) const override;
  /// Only for maps that the kernels know; the formula's operations check theirs.
  void check(const AttentionInputs& in) const override;
  /// For maps that the kernels know: S (B, H, F, d), z (B, H, F) and M (B, H, F; 0 without exponents)
  /// one after the other in one vector of `compute_type`.
  [[nodiscard]] at::Tensor empty_sums(const AttentionInputs& in) const override;

  /// The forward pass in ATen's operations, on any device. Chunks of tokens depend on F alone, so a
  /// result depends neither on the batch nor on the number of threads. Memory O(N d + F d).
  [[nodiscard]] AttentionForward formula(const AttentionInputs& in) const;

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

  /// The rule that the kernels compute; only for maps that they know.
  [[nodiscard]] const kernels::linear_attention::Rule& rule() const { return rule_.value(); }
  [[nodiscard]] const TokenWeights& weights() const { return weights_; }

 private:
  FeatureMapPtr map_;
  Normaliser normaliser_;
  TokenGrid grid_;
  TokenWeights weights_;
  std::optional<kernels::linear_attention::Rule> rule_;
  bool exponential_;
  bool divides_;  ///< whether there is an m at all
};

/// Tokens of a chunk: features of some 256 KB per head, and enough tokens for efficient products.
constexpr std::int64_t chunk_tokens(std::int64_t feature_dim) {
  return std::max<std::int64_t>(64,
                                (std::int64_t{1} << 16) / std::max<std::int64_t>(1, feature_dim));
}

}  // namespace hydrascope::model::ops
