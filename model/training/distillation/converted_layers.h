// The layers that a conversion changes: their attention differs between teacher and student.
#pragma once

#include "model/checkpoint/checkpoint.h"
#include "model/config/config.h"
#include "model/training/optimizer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::model {
class VisionTransformerImpl;
}

namespace hydrascope::model::training {

struct ConvertedLayers {
  std::vector<std::int64_t> all;  ///< ascending
  /// Layers whose mechanism has a learned map that can imitate the teacher's attention rows.
  std::vector<std::int64_t> maps;
  /// Layers that become Hydra from another mechanism.
  std::vector<std::int64_t> hydra;

  /// Layers before it are the same in teacher and student.
  [[nodiscard]] std::int64_t first() const { return all.empty() ? 0 : all.front(); }
};

/// Throws Error(invalid_argument) when more than the attention differs.
ConvertedLayers converted_layers(const VitConfig& teacher, const VisionTransformerImpl& student);

/// The parameters of a layer's mechanism (a map, a feature scale), by their names in checkpoints.
NamedTensors mechanism_parameters(const VisionTransformerImpl& model, std::int64_t layer);
/// These parameters and the projections: all of `blocks.N.attn.`
NamedTensors attention_parameters(const VisionTransformerImpl& model, std::int64_t layer);

/// For a conversion that begins with the layers of an earlier one. Gives `student` the earlier
/// model's tensors of the blocks from `first` on whose attention is the same, and of all parts
/// outside the blocks; returns those blocks, ascending. Throws Error(invalid_argument) if there are
/// none, and for a model converted from another parent than the student's, the file of
/// `parent_sha256` ("" without one). Also throws as `Checkpoint::start_loading` does.
std::vector<std::int64_t> take_over_layers(const checkpoint::Checkpoint& earlier,
                                           std::int64_t first, const std::string& parent_sha256,
                                           VisionTransformerImpl& student);

}  // namespace hydrascope::model::training
