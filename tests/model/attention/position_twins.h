// A second opinion on every position rule: its equation for one pair of tokens after another, in
// double precision. Nothing here is shared with model/attention/positions.
#pragma once

#include "model/registry/positions.h"
#include "tests/model/attention/twins.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::testing {

/// A layer's place and what it was trained at.
struct RuleLayer {
  model::TokenGrid training;
  std::int64_t index = 1;
  std::int64_t depth = 2;
};

/// Softmax attention under the rule: q, k, v (B, H, N, d) of double on the CPU -> (B, N, H * d).
/// Differentiable in all of them and in the parameters. relbias with a table of entries has a twin at
/// the training grid alone.
at::Tensor position_twin(const model::PositionSpec& rule, const at::Tensor& q, const at::Tensor& k,
                         const at::Tensor& v, const model::TokenGrid& grid, const RuleLayer& layer,
                         const Parameters& parameters);

}  // namespace hydrascope::testing
