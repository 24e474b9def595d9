// Linear attention for any feature map (Katharopoulos et al. 2020, arXiv 2006.16236, equations
// 4-6): the sums of model/ops/linear_attention.h behind the map's network. A_ij = w_j (phi(q_i) . phi(k_j)) / m_i, with the map's own token weights w.
#pragma once

#include "model/attention/linear/feature_map.h"
#include "model/ops/linear_attention.h"

#include <cstdint>
#include <functional>

namespace hydrascope::model {

struct MixerState;

/// q, k, v (B, H, N, d) -> y (B, H, N, d) in v's dtype. Time O(N F d), memory O(N d + F d) forward
/// and backward. Trained in bfloat16 on the CPU, maps with bounded features (`bounded_features`)
/// run as the reference below does, in that type, and keep their features for the backward pass:
/// memory is then O(N (F + d) + F d). S and z are rounded to bfloat16 before they meet the queries,
/// and eps is added to m for maps in logarithms too: without the maxima m may be next to nothing. The
/// error is measured by tests/model/attention/precision_test.cpp.
at::Tensor linear_attention(const FeatureMapPtr& map, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const TokenGrid& grid,
                            const Normaliser& normaliser);

/// The same function in plain operations that autograd differentiates; stores N F features. `change`
/// may change the sums before queries read them: S with z as its last column, (B, H, F, d + 1), and for
/// maps in logarithms M (B, H, F, 1).
at::Tensor linear_attention_reference(const FeatureMapPtr& map, const at::Tensor& q,
                                      const at::Tensor& k, const at::Tensor& v,
                                      const TokenGrid& grid, const Normaliser& normaliser,
                                      const std::function<void(MixerState&)>& change = {});

/// Rows first .. first + count of A: (B, H, count, N), by operations that autograd differentiates.
at::Tensor linear_attention_rows(const FeatureMapPtr& map, const at::Tensor& q, const at::Tensor& k,
                                 const TokenGrid& grid, const Normaliser& normaliser,
                                 std::int64_t first, std::int64_t count);

}  // namespace hydrascope::model
