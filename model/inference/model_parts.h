// The parts of a model that plans of every device keep beside the folded matrices
// (folded_network.h): they are read again for each size of the image.
#pragma once

#include "model/attention/attention.h"
#include "model/attention/kernel_form.h"
#include "model/attention/token_grid.h"
#include "model/weight_table.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::model::inference {

struct ModelParts {
  VitConfig config;
  /// One for each layer. Its mixer is filled; its linear layers are not, and take no memory.
  std::vector<std::shared_ptr<AttentionImpl>> attention;
  std::vector<std::unique_ptr<KernelForm>> forms;  ///< one for each layer, null without kernels
  std::vector<MemorySpec> memory;                  ///< InferenceOptions::memory
  at::Tensor prefix;     ///< (num_prefix, D) float32, without positions; undefined without any
  at::Tensor pos_embed;  ///< as the model has it, float32; undefined without a learned table
  std::vector<at::Tensor> layer_pos_embed;  ///< one for each layer, float32 or undefined

  [[nodiscard]] TokenMixer& mixer(std::int64_t layer) const {
    return attention[static_cast<std::size_t>(layer)]->mixer();
  }
  [[nodiscard]] const KernelForm* form(std::int64_t layer) const {
    return forms[static_cast<std::size_t>(layer)].get();
  }
};

/// Copies the parts out of the table, the attention into modules that it takes out of the table. `memory`:
/// InferenceOptions::memory.
ModelParts read_parts(const WeightTable& weights, std::vector<MemorySpec> memory = {});

/// Embeddings of images of rows x columns patches, float32.
struct Embeddings {
  at::Tensor prefix;    ///< (num_prefix, D), positions added; undefined without prefix tokens
  at::Tensor position;  ///< (patches and overview, D)
  /// Tables that are added to the input of each block, (patches and overview, D) or undefined.
  std::vector<at::Tensor> layer_positions;
};
Embeddings make_embeddings(const ModelParts& parts, std::int64_t rows, std::int64_t columns);

/// The window size if patches may lie window after window: all layers have kernels that serve this
/// order, and all layers with windows, at least one, have the same size.
std::optional<GridExtent> common_window(const ModelParts& parts);

/// Puts the tensors of a mixer that is to run as a module on a device, in that type.
void move_mixer(AttentionImpl& attention, c10::Device device, at::ScalarType type);

/// Error(invalid_argument) that names the first layer whose mechanism has no kernels: it has no
/// form, or `lacking` gives the reason why a plan does not serve the form (empty if it does).
void require_kernels_everywhere(
    const ModelParts& parts,
    const std::function<std::string(std::int64_t layer, const KernelForm& form)>& lacking);

}  // namespace hydrascope::model::inference
