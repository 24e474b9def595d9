// Dropping the patch tokens that give least to the class token, as its own attention map ranks
// them.
#pragma once

#include "kernels/device/thread_team.h"
#include "model/inference/cpu/packed_network.h"
#include "model/inference/cpu/workspace.h"

#include <cstddef>
#include <cstdint>

namespace hydrascope::model::inference {

/// Behind the mixing of `layer`, which has stored its keys and values: moves the tokens and queries
/// of `work.reduction->patches` patches of each of `images` images, in their order, behind the
/// prefix's. `weights` are that layer's. Of equals the first go on, NaN is last.
template <class T>
void drop_tokens(const PackedNetwork& network, const ImageGeometry::TokenWeights& weights,
                 std::size_t layer, std::int64_t images, Workspace<T>& work,
                 kernels::device::ThreadTeam& team);

}  // namespace hydrascope::model::inference
