// Linear attention for any feature map (Katharopoulos et al. 2020, arXiv 2006.16236, equations
// 4-6), per head:
//   a_i = phi_q(q_i), b_j = phi_k(k_j)      S = sum_j b_j v_j^T (F x d)      z = sum_j b_j (F)
//   y_i = (a_i^T S) / m_i                   m_i = a_i . z, by the rule of `Normaliser`
//   A_ij = (a_i . b_j) / m_i
// Maps that give logarithms (U of q, W of k) are stabilised from both sides, exactly and without an
// epsilon: weights are ratios, so a factor per query and a factor per feature cancel.
//   M_f = max_j W_jf    b_jf = exp(W_jf - M_f)    a_if = exp(U_if + M_f - max_f(U_if + M_f))
// At the feature that attains the maximum a = 1 and z >= 1, so m_i lies in [1, F N].
#pragma once

#include "model/attention/feature_map.h"

#include <cstdint>

namespace hydrascope::model {

/// What a query's weights are divided by. Maps that give logarithms ignore it, but for eps when
/// they are trained in bfloat16 (`linear_attention`).
struct Normaliser {
  enum class Rule {
    add_eps,       ///< a.z + eps: a query without any weight gives 0
    signed_clamp,  ///< a.z, moved away from 0 to +-eps: for signed features
    none           ///< 1
  };
  Rule rule = Rule::add_eps;
  double eps = 1e-6;
};

/// q, k, v (B, H, N, d) -> y (B, H, N, d) in v's dtype. Time O(N F d), memory O(N d + F d) forward
/// and backward: features are made chunk by chunk and made again for the backward pass, which is
///   gh_i = g_i / m_i    delta_i = (g_i . y_i) / m_i    da_i = S gh_i - delta_i z
///   dS = sum_i a_i gh_i^T    dz = -sum_i delta_i a_i    db_j = dS v_j + dz    dv_j = dS^T b_j
/// Trained in bfloat16, maps with bounded features multiply in that type and keep them for the
/// backward pass: memory is then O(N (F + d) + F d). S and z are rounded to bfloat16 before they
/// meet the queries, and eps is added to m for maps in logarithms too: without the maxima above m
/// may be next to nothing. tests/model/attention/bfloat16_training_test.cpp says how near that is.
/// Chunks depend on F alone, so a result depends neither on the batch nor on the threads' number.
at::Tensor linear_attention(const FeatureMapPtr& map, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const TokenGrid& grid,
                            const Normaliser& normaliser);

/// The same function in plain operations that autograd differentiates; stores N F features.
at::Tensor linear_attention_reference(const FeatureMapPtr& map, const at::Tensor& q,
                                      const at::Tensor& k, const at::Tensor& v,
                                      const TokenGrid& grid, const Normaliser& normaliser);

/// Rows first .. first + count of A: (B, H, count, N).
at::Tensor linear_attention_rows(const FeatureMapPtr& map, const at::Tensor& q, const at::Tensor& k,
                                 const TokenGrid& grid, const Normaliser& normaliser,
                                 std::int64_t first, std::int64_t count);

/// The sums that linear attention keeps of its keys.
struct LinearState {
  at::Tensor kv_sum;   ///< S (B, H, F, d)
  at::Tensor k_sum;    ///< z (B, H, F)
  at::Tensor maximum;  ///< (B, H, F) M of the keys so far; undefined for plain features
};

/// Adds keys to `state` (default-constructed = empty). With logarithms the running maximum is
/// raised and the sums are rescaled by exp(M_old - M_new).
void accumulate(const FeatureMap& map, const at::Tensor& k, const at::Tensor& v,
                const TokenSpan& span, LinearState& state);

/// y of queries against a state: (B, H, n, d).
at::Tensor read_out(const FeatureMap& map, const at::Tensor& q, const TokenSpan& span,
                    const LinearState& state, const Normaliser& normaliser);

}  // namespace hydrascope::model
