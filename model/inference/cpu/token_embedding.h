// From pixels to the tokens that enter the first block.
#pragma once

#include "kernels/device/thread_team.h"
#include "model/inference/cpu/packed_network.h"
#include "model/inference/cpu/workspace.h"

#include <cstdint>

namespace hydrascope::model::inference {

/// Reduces each of `count` pictures (C, H, W) to its overview's pixels, `work.overview`.
template <class T>
void make_overviews(const PackedNetwork& network, const float* images, std::int64_t count,
                    Workspace<T>& work, kernels::device::ThreadTeam& team);

/// Writes the tokens of a tile: the prefix, and the patches' embeddings with their positions.
template <class T>
void embed(const PackedNetwork& network, const ImageGeometry& geometry, const float* images,
           const Tile& tile, Workspace<T>& work, Scratch<T>& scratch);

}  // namespace hydrascope::model::inference
