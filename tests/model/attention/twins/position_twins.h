// A second opinion on every position rule: its equation for one pair of tokens after another, in
// double precision. Nothing here is shared with model/attention/positions.
#pragma once

#include "model/registry/positions.h"
#include "tests/model/attention/twins/twins.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::testing {

/// A layer's place and what it was trained at.
struct RuleLayer {
  model::TokenGrid training;
  std::int64_t index = 1;
  std::int64_t depth = 2;
};

/// The result of a rule for all pairs of tokens.
struct RuledPairs {
  at::Tensor scores;  ///< s (B, H, N, N)
  at::Tensor values;  ///< r, added to the values, (N, N, d); undefined: nothing
};
RuledPairs position_pairs(const model::PositionSpec& rule, const at::Tensor& q, const at::Tensor& k,
                          const model::TokenGrid& grid, const RuleLayer& layer,
                          const Parameters& parameters);
/// sum_j a_ij (v_j + r_ij) of weights (B, H, N, N): (B, N, H * d).
at::Tensor averaged(const at::Tensor& weights, const at::Tensor& v, const RuledPairs& pairs);
/// Queries or keys (B, H, N, d) as a rule turns them.
at::Tensor position_turned(const model::PositionSpec& rule, const at::Tensor& x,
                           const model::TokenGrid& grid, const RuleLayer& layer,
                           const Parameters& parameters);

/// Softmax attention under the rule: q, k, v (B, H, N, d) of double on the CPU -> (B, N, H * d).
/// Differentiable in all of them and in the parameters. relbias with a table of entries has a twin at
/// the training grid alone.
at::Tensor position_twin(const model::PositionSpec& rule, const at::Tensor& q, const at::Tensor& k,
                         const at::Tensor& v, const model::TokenGrid& grid, const RuleLayer& layer,
                         const Parameters& parameters);

}  // namespace hydrascope::testing
