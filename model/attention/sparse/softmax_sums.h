// Softmax over keys that come in parts: the sums of each part, and the softmax of all parts.
#pragma once

#include "model/attention/positions/position_rule.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace hydrascope::model {

/// Numerators, denominator and maximum of the softmax over some keys, one beside the other:
/// q (B, G, h, n, d), k (B, G, h, m, d), v (B, G, h, m, w) -> (B, G, h, n, w + 2), in the type of the
/// computation. `weights`, broadcast to (B, G, h, n, m): bool, whether a query sees a key, or numbers
/// from 0 on by which exponentials are multiplied; undefined: all are seen. A query may see nothing.
/// The maximum has no gradient.
at::Tensor softmax_sums(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& weights, const ScoredPairs& scored = {});

/// The sums of all image tokens over the prefix tokens: q, k, v (B, H, N, .) ->
/// (B, H, image tokens, w + 2).
at::Tensor prefix_sums(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const TokenGrid& grid, const PositionRule* rule);

/// The softmax of disjoint keys from their sums, each (..., w + 2) -> (..., w):
///   y = sum_p e^(m_p - m) n_p / sum_p e^(m_p - m) z_p,    m = max_p m_p
at::Tensor merged_softmax(const std::vector<at::Tensor>& sums);

}  // namespace hydrascope::model
