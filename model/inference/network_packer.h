// From a model's weights to the network that the CPU plan runs.
#pragma once

#include "kernels/device/thread_team.h"
#include "model/inference/cpu/channel_ranges.h"
#include "model/inference/cpu/packed_network.h"
#include "model/inference/inference_options.h"
#include "model/inference/model_parts.h"
#include "model/weight_table.h"

#include <cstdint>
#include <vector>

namespace hydrascope::model::inference {

/// Packs the matrices: folded in float64, rounded to the options' precision once.
/// `parts` belong to `weights`. `ranges`: calibration's result, for int8; may be null. `team` packs
/// as many small blocks at a time as it has threads.
PackedNetwork pack_network(const WeightTable& weights, const ModelParts& parts,
                           const InferenceOptions& options, const ChannelRanges* ranges,
                           kernels::device::ThreadTeam& team);

/// Whether memory is given back, and LibTorch's threads are used, block by block.
bool has_large_blocks(const VitConfig& config);

/// Tables of `network`, which was packed with `parts`, for images of rows x columns patches.
ImageGeometry make_geometry(const ModelParts& parts, const PackedNetwork& network, Kernels kernels,
                            std::int64_t rows, std::int64_t columns);

/// Layers that run as modules inside the plan.
std::vector<std::int64_t> module_layers(const PackedNetwork& network);

}  // namespace hydrascope::model::inference
