// What a conversion changes: the layers whose attention differs between teacher and student.
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
  /// Whose mechanism has a learned map that can imitate the teacher's attention rows.
  std::vector<std::int64_t> maps;
  /// Hydra where the teacher has something else.
  std::vector<std::int64_t> hydra;

  /// Layers before it are the same in teacher and student.
  [[nodiscard]] std::int64_t first() const { return all.empty() ? 0 : all.front(); }
};

/// Throws Error(invalid_argument) when something besides the attention differs.
ConvertedLayers converted_layers(const VitConfig& teacher, const VisionTransformerImpl& student);

/// What its mechanism learns in a layer (a map, a feature scale), by the names of checkpoints.
NamedTensors mechanism_parameters(const VisionTransformerImpl& model, std::int64_t layer);
/// That and the projections: all of `blocks.N.attn.`
NamedTensors attention_parameters(const VisionTransformerImpl& model, std::int64_t layer);

/// For a conversion that begins with the layers of an earlier one: gives `student` what that holds of the blocks from `first` on whose attention is the same,
/// and of all that is no block's; returns those blocks, ascending. Throws Error(invalid_argument)
/// where there are none and for a model that was converted from another one than the student's, the
/// file of `parent_sha256` ("" if there is none), and what `Checkpoint::start_loading` throws.
std::vector<std::int64_t> take_over_layers(const checkpoint::Checkpoint& earlier,
                                           std::int64_t first, const std::string& parent_sha256,
                                           VisionTransformerImpl& student);

}  // namespace hydrascope::model::training
