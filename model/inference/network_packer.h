// From a model of modules to what the CPU plan runs.
#pragma once

#include "kernels/device/thread_team.h"
#include "model/inference/channel_ranges.h"
#include "model/inference/packed_network.h"
#include "model/vision_transformer.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace hydrascope::model::inference {

struct Packing {
  kernels::Storage storage = kernels::Storage::float32;
  /// Blocks' weights and inputs in 8 bits; everything else in `storage`.
  bool int8 = false;
  const ChannelRanges* ranges = nullptr;  ///< of int8: what calibration found; may be null
  Kernels kernels = Kernels::automatic;
  /// Drop every matrix from the model as soon as it is packed, so that both never exist whole; what
  /// mechanisms without kernels need stays.
  bool release = false;
  /// Called before a block is read, to load it; may be empty.
  std::function<void(std::int64_t layer)> fill_block;
  /// Packs as many blocks at a time as it has threads, where `fill_block` stands that; null: one
  /// after the other.
  kernels::device::ThreadTeam* team = nullptr;
};

/// Packs `model`, whose parameters are float32 on the CPU: folded in float64, rounded to the
/// storage once.
PackedNetwork pack_network(VisionTransformerImpl& model, const Packing& packing);

/// Tables of `network`, which was packed from `model`, for images of rows x columns patches.
ImageGeometry make_geometry(VisionTransformerImpl& model, const PackedNetwork& network,
                            std::int64_t rows, std::int64_t columns);

/// Layers that run as modules inside the plan.
std::vector<std::int64_t> module_layers(const PackedNetwork& network);
/// Layers that need all tokens at their places in the grid: modules and windows.
std::vector<std::int64_t> layers_of_all_tokens(const PackedNetwork& network);

}  // namespace hydrascope::model::inference
