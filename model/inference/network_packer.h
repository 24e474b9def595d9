// From a model of modules to what the CPU plan runs.
#pragma once

#include "model/inference/packed_network.h"
#include "model/position_embedding.h"
#include "model/vision_transformer.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::model::inference {

/// (v / 255 - mean) / std of each channel: how pixels become the tensor that the model was trained on.
struct PixelNormalisation {
  std::array<float, 3> mean{};
  std::array<float, 3> std{1, 1, 1};
};

/// Packs `model`, whose parameters are float32 on the CPU. With `release`, every matrix is dropped
/// from the model as soon as it is packed, so that both never exist whole; what mechanisms without
/// kernels need stays. Folding is done in float64, rounding to `storage` once.
PackedNetwork pack_network(VisionTransformerImpl& model, kernels::Storage storage, Kernels kernels,
                           const std::optional<PixelNormalisation>& pixels, bool release);

/// Tables for images of rows x columns patches.
ImageGeometry make_geometry(VisionTransformerImpl& model, std::int64_t rows, std::int64_t columns,
                            PosInterp interpolation);

/// Layers that run as modules inside the plan.
std::vector<std::int64_t> module_layers(const PackedNetwork& network);

}  // namespace hydrascope::model::inference
