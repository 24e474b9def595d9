#include "model/training/distillation/converted_layers.h"

#include "kernels/error.h"
#include "model/attention/registry.h"
#include "model/checkpoint/key_map.h"
#include "model/vision_transformer.h"

#include <string>

namespace hydrascope::model::training {
namespace {

/// Are rows of the attention map distributions over all tokens, of which a few can be asked for?
bool has_distributions(const AttentionSpec& spec) {
  const MechanismEntry& entry = find_mechanism(spec.mechanism);
  const auto form = spec.options.find("form");
  return entry.has_map && entry.rows_sum_to_one && entry.non_negative &&
         entry.permutation_equivariant &&
         (form == spec.options.end() || form->second == "bidirectional");
}

AttentionSpec options_of_layer(const VitConfig& config, std::int64_t layer) {
  return model::with_all_options({config.attention_of(layer)}, config.training_grid()).front();
}

}  // namespace

ConvertedLayers converted_layers(const VitConfig& teacher, const VisionTransformerImpl& student) {
  VitConfig same = student.config();
  same.attention = teacher.attention;
  // What a model does with another size than its own; stages that compare layers give the student
  // the teacher's tokens.
  same.pos_interp = teacher.pos_interp;
  same.overview = teacher.overview;
  if (!(same == teacher)) {
    throw Error(ErrorCode::invalid_argument,
                "teacher and student differ in more than attention and what they do at other sizes",
                teacher.arch);
  }
  ConvertedLayers layers;
  for (std::int64_t layer = 0; layer < teacher.depth; ++layer) {
    const AttentionSpec before = options_of_layer(teacher, layer);
    const AttentionSpec after = options_of_layer(student.config(), layer);
    if (before == after) continue;
    layers.all.push_back(layer);
    if (has_distributions(before) && has_distributions(after) &&
        !mechanism_parameters(student, layer).empty())
      layers.maps.push_back(layer);
    if (after.mechanism == "hydra" && before.mechanism != "hydra") layers.hydra.push_back(layer);
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

}  // namespace hydrascope::model::training
