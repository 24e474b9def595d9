// From a model of modules to what the CPU plan runs.
#pragma once

#include "kernels/device/thread_team.h"
#include "model/inference/cpu/channel_ranges.h"
#include "model/inference/cpu/packed_network.h"
#include "model/inference/inference_options.h"

#include <cstdint>
#include <vector>

namespace hydrascope::model::inference {

/// Packs `source`: folded in float64, rounded to the storage of the options' precision once.
/// `ranges`: what calibration found, for int8; may be null. `team` packs as many blocks at a time as
/// it has threads, where they are small.
PackedNetwork pack_network(const EngineSource& source, const InferenceOptions& options,
                           const ChannelRanges* ranges, kernels::device::ThreadTeam& team);

/// Whether memory is given back, and LibTorch's threads are used, block by block.
bool has_large_blocks(const VitConfig& config);

/// Tables of `network`, which was packed from `model`, for images of rows x columns patches.
ImageGeometry make_geometry(VisionTransformerImpl& model, const PackedNetwork& network,
                            Kernels kernels, std::int64_t rows, std::int64_t columns);

/// Layers that run as modules inside the plan.
std::vector<std::int64_t> module_layers(const PackedNetwork& network);

}  // namespace hydrascope::model::inference
