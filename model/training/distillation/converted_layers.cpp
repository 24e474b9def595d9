#include "model/training/distillation/converted_layers.h"

#include "kernels/error.h"
#include "model/checkpoint/hub/key_map.h"
#include "model/registry/mechanisms.h"
#include "model/vision_transformer.h"

#include <string>

namespace hydrascope::model::training {
namespace {

/// Whether the attention map's rows are distributions over all tokens and can be computed singly.
bool has_distributions(const AttentionSpec& spec) {
  const MechanismEntry& entry = find_mechanism(spec.mechanism);
  return entry.has_map && entry.rows_sum_to_one && entry.non_negative &&
         entry.permutation_equivariant;
}

AttentionSpec options_of_layer(const VitConfig& config, std::int64_t layer) {
  return model::with_all_options({config.attention_of(layer)}, config.training_grid()).front();
}

PositionSpec rule_of_layer(const VitConfig& config, std::int64_t layer) {
  return model::with_all_options(std::vector{config.rel_pos_of(layer)}).front();
}

}  // namespace

ConvertedLayers converted_layers(const VitConfig& teacher, const VisionTransformerImpl& student) {
  VitConfig same = student.config();
  same.attention = teacher.attention;
  same.rel_pos = teacher.rel_pos;
  // These fields treat sizes other than the model's own; stages that compare layers give the
  // student the teacher's tokens.
  same.pos_interp = teacher.pos_interp;
  same.overview = teacher.overview;
  same.exits = teacher.exits;
  same.coarse_exits = teacher.coarse_exits;
  same.exit_rule = teacher.exit_rule;
  same.exit_threshold = teacher.exit_threshold;
  // Tables of layers begin as zeros.
  if (same.pos_embed == PosEmbed::layers && teacher.pos_embed == PosEmbed::learned)
    same.pos_embed = teacher.pos_embed;
  if (!(same == teacher)) {
    throw Error(
        ErrorCode::invalid_argument,
        "teacher and student differ in more than attention, tables of positions in layers, exits "
        "and what they do at other sizes",
        teacher.arch);
  }
  ConvertedLayers layers;
  for (std::int64_t layer = 0; layer < teacher.depth; ++layer) {
    const AttentionSpec before = options_of_layer(teacher, layer);
    const AttentionSpec after = options_of_layer(student.config(), layer);
    if (before == after && rule_of_layer(teacher, layer) == rule_of_layer(student.config(), layer))
      continue;
    layers.all.push_back(layer);
    if (has_distributions(before) && has_distributions(after) &&
        !mechanism_parameters(student, layer).empty())
      layers.maps.push_back(layer);
    if (after.mechanism != before.mechanism && find_mechanism(after.mechanism).starts_fitted)
      layers.hydra.push_back(layer);
  }
  return layers;
}

NamedTensors attention_parameters(const VisionTransformerImpl& model, std::int64_t layer) {
  const std::string prefix = "blocks." + std::to_string(layer) + ".attn.";
  NamedTensors list;
  for (const auto& item : model.named_parameters()) {
    if (item.key().starts_with(prefix)) list.emplace_back(item.key(), item.value());
  }
  return list;
}

NamedTensors mechanism_parameters(const VisionTransformerImpl& model, std::int64_t layer) {
  NamedTensors list = attention_parameters(model, layer);
  std::erase_if(list, [](const auto& parameter) {
    return !checkpoint::is_mechanism_tensor(parameter.first);
  });
  return list;
}

std::vector<std::int64_t> take_over_layers(const checkpoint::Checkpoint& earlier,
                                           std::int64_t first, const std::string& parent_sha256,
                                           VisionTransformerImpl& student) {
  const checkpoint::Loading loading = earlier.start_loading(student);
  const VitConfig config = earlier.deduce_config();
  const std::string subject = "`start` " + earlier.file().string();
  std::vector<std::int64_t> taken;
  for (std::int64_t layer = first; layer < config.depth; ++layer) {
    if (!(options_of_layer(config, layer) == options_of_layer(student.config(), layer))) continue;
    fill(student.block(layer), loading.weights(), block_prefix(layer));
    taken.push_back(layer);
  }
  if (taken.empty()) {
    throw Error(ErrorCode::invalid_argument, "holds no layer that would have its attention",
                subject, "its attention is " + to_text(config.attention));
  }
  // A file that names the parent is believed: a conversion that learns sizes changes the embedding
  // too. In another file the embedding is the parent's, but for rounding.
  const at::Tensor embedding = student.named_parameters()["patch_embed.proj.weight"].detach();
  const at::Tensor before = embedding.clone();
  fill(student, loading.weights(), "", is_outside_blocks);
  constexpr double kRounding = 1e-2;  // bfloat16 is within 2^-8 of a weight
  const bool names_parent =
      !parent_sha256.empty() && earlier.metadata("parent_sha256") == parent_sha256;
  if (!names_parent &&
      (embedding - before).norm().item<double>() > kRounding * before.norm().item<double>()) {
    throw Error(ErrorCode::invalid_argument, "was converted from another model than `model`",
                subject);
  }
  return taken;
}

}  // namespace hydrascope::model::training
