// Softmax over keys that come in parts: what each part needs to keep, and the softmax of all parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace hydrascope::model {

/// e^(s - maximum) of scores (..., n, m), and the maximum (..., n, 1), which has no gradient.
struct StableExponentials {
  at::Tensor values;
  at::Tensor maximum;
};
/// -inf is the score of a key that is not seen; a query may see nothing, and has zeros.
StableExponentials stable_exponentials(const at::Tensor& scores);

/// Numerators, denominator and maximum of softmax(q k^T / sqrt(d)) over some keys, one beside the
/// other: q (..., n, d), k (..., m, d), v (..., m, w) -> (..., n, w + 2), in the type of the
/// computation. `weights`, broadcast to (..., n, m): bool, whether a query sees a key, or numbers from 0
/// on by which exponentials are multiplied; undefined: all are seen. A query may see nothing.
at::Tensor softmax_sums(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& weights);

/// The softmax of disjoint keys from their sums, each (..., w + 2) -> (..., w):
///   y = sum_p e^(m_p - m) n_p / sum_p e^(m_p - m) z_p,    m = max_p m_p
at::Tensor merged_softmax(const std::vector<at::Tensor>& sums);

}  // namespace hydrascope::model
