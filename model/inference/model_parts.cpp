#include "model/inference/model_parts.h"

#include "kernels/error.h"
#include "model/position_embedding.h"
#include "model/vision_transformer.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <string_view>
#include <utility>

namespace hydrascope::model::inference {
namespace {

using at::Tensor;

bool is_of_mixer(std::string_view name) {
  return !name.starts_with("qkv.") && !name.starts_with("norm.") && !name.starts_with("proj.");
}

/// The kernels turn queries and keys; rules that do more run in modules.
std::unique_ptr<KernelForm> form_of(const TokenMixer& mixer) {
  const PositionRule* const rule = mixer.position();
  if (rule != nullptr && (rule->changes_scores() || rule->adds_values())) return nullptr;
  return mixer.kernel_form();
}

/// A copy, which keeps no file open; undefined if the model has no such tensor.
Tensor float_copy(const WeightTable& weights, const std::string& name) {
  return weights.has(name) ? weights.get(name).to(at::kFloat, false, /*copy=*/true) : Tensor();
}

}  // namespace

ModelParts read_parts(const WeightTable& weights, std::vector<MemorySpec> memory) {
  const at::NoGradGuard no_grad;
  ModelParts parts;
  parts.config = weights.config();
  parts.memory = std::move(memory);
  {  // The other modules are freed before anything is copied.
    const std::shared_ptr<VisionTransformerImpl> modules = weights.take_modules();
    for (std::int64_t layer = 0; layer < parts.config.depth; ++layer)
      parts.attention.push_back(std::static_pointer_cast<AttentionImpl>(
          modules->block(layer).attention().shared_from_this()));
  }
  parts.pos_embed = float_copy(weights, "pos_embed");
  std::vector<Tensor> tokens;
  for (const char* name : {"cls_token", "dist_token", "reg_token"}) {
    if (weights.has(name)) tokens.push_back(weights.get(name).to(at::kFloat).squeeze(0));
  }
  if (!tokens.empty()) parts.prefix = at::cat(tokens);
  for (std::int64_t layer = 0; layer < parts.config.depth; ++layer) {
    const std::string prefix = block_prefix(parts.config.block_of(layer));
    AttentionImpl& attention = *parts.attention[static_cast<std::size_t>(layer)];
    attention.eval();
    fill(attention, weights, prefix + "attn.", is_of_mixer);
    if (!parts.memory.empty()) attention.remember(parts.memory[static_cast<std::size_t>(layer)]);
    parts.forms.push_back(form_of(attention.mixer()));
    parts.layer_pos_embed.push_back(float_copy(weights, prefix + "pos_embed"));
  }
  return parts;
}

Embeddings make_embeddings(const ModelParts& parts, std::int64_t rows, std::int64_t columns) {
  const c10::InferenceMode inference;
  const VitConfig& config = parts.config;
  const std::int64_t embedded = config.no_embed_class ? 0 : config.num_prefix_tokens();
  const TokenGrid grid = config.token_grid(rows, columns);
  const Tensor position = position_embedding(parts.pos_embed, config, grid).squeeze(0);
  Embeddings embeddings;
  embeddings.prefix = parts.prefix;
  if (parts.prefix.defined() && embedded > 0)
    embeddings.prefix = parts.prefix + position.narrow(0, 0, embedded);
  embeddings.position = position.slice(0, embedded);
  for (const Tensor& table : parts.layer_pos_embed)
    embeddings.layer_positions.push_back(
        table.defined() ? layer_position_embedding(table, config, grid).squeeze(0) : Tensor());
  return embeddings;
}

std::optional<GridExtent> common_window(const ModelParts& parts) {
  std::optional<GridExtent> common;
  for (std::int64_t layer = 0; layer < parts.config.depth; ++layer) {
    const KernelForm* const form = parts.form(layer);
    if (form == nullptr || !form->serves_windows()) return std::nullopt;
    const std::optional<GridExtent> windows = form->windows();
    if (windows && common && *common != *windows) return std::nullopt;
    if (windows) common = windows;
  }
  return common;
}

void move_mixer(AttentionImpl& attention, c10::Device device, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const auto move = [&](const torch::OrderedDict<std::string, Tensor>& tensors) {
    for (const auto& item : tensors) {
      if (is_of_mixer(item.key())) Tensor(item.value()).set_data(item.value().to(device, type));
    }
  };
  move(attention.named_parameters());
  move(attention.named_buffers());
}

void require_kernels_everywhere(
    const ModelParts& parts,
    const std::function<std::string(std::int64_t layer, const KernelForm& form)>& lacking) {
  const VitConfig& config = parts.config;
  // First layers without kernels anywhere: windows beside them lack kernels for their sake.
  for (const bool anywhere : {true, false}) {
    for (std::int64_t layer = 0; layer < config.depth; ++layer) {
      const TokenMixer& mixer = parts.mixer(layer);
      const KernelForm* const form = parts.form(layer);
      std::string why;
      if (form != nullptr)
        why = anywhere ? "" : lacking(layer, *form);
      else if (const std::string memory =
                   parts.memory.empty() ? std::string(kNoMemory)
                                        : parts.memory[static_cast<std::size_t>(layer)].memory;
               memory != kNoMemory)
        why = "with the memory '" + memory + "'";
      else if (mixer.position() != nullptr)
        why = "with the position rule '" + config.rel_pos_of(layer).rule + "'";
      else
        why = "with these options";
      if (!why.empty())
        throw Error(
            ErrorCode::invalid_argument,
            "there are no kernels for '" + config.attention_of(layer).mechanism + "' " + why,
            "blocks." + std::to_string(layer) + ".attn",
            "`kernels`=auto runs such layers as modules inside the plan");
    }
  }
}

}  // namespace hydrascope::model::inference
