// From a layer's patterns (model/attention/sparse) to the groups that the CPU plan computes.
#pragma once

#include "kernels/vector/scalar_types.h"
#include "model/attention/fused_mixing.h"
#include "model/attention/token_grid.h"
#include "model/inference/cpu/grouped_keys.h"
#include "model/inference/cpu/token_order.h"

namespace hydrascope::model::inference {

/// For images of `grid` whose patches lie in `order`, in a plan that stores `storage`. Many queries
/// that share their keys are several groups: threads share them.
GroupedKeys group_keys(const FusedSparse& sparse, const TokenGrid& grid, const TokenOrder& order,
                       kernels::Storage storage);

}  // namespace hydrascope::model::inference
