// A second opinion on every attention mechanism: the equation of its paper, written down naively in
// double precision with explicit N x N weights or explicit loops. Nothing here is shared with
// model/, which is what makes agreement worth something.
#pragma once

#include "model/attention/attention.h"

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>

namespace hydrascope::testing {

/// Names below `attn.` ("feature_map.q.weight") and values, double on the CPU.
using Parameters = std::map<std::string, at::Tensor>;

/// Those of the program have one; one that the tests add has its own reference form instead.
bool has_twin(std::string_view mechanism);

/// q, k, v (B, H, N, d) of double on the CPU -> (B, N, H * d). Throws std::out_of_range for a
/// mechanism without a twin and for a parameter that is not there.
at::Tensor twin(const model::AttentionSpec& spec, const at::Tensor& q, const at::Tensor& k,
                const at::Tensor& v, const model::TokenGrid& grid,
                const model::TokenGrid& training_grid, const Parameters& parameters);

}  // namespace hydrascope::testing
