#include "model/registry/attention_spec.h"

#include "kernels/error.h"
#include "model/registry/layer_grammar.h"
#include "model/registry/mechanisms.h"

#include <algorithm>
#include <set>
#include <utility>

namespace hydrascope::model {
namespace {

const LayerField kAttentionField{"`attention`", "a mechanism's name",
                                 "examples: hydra | softmax:0-9,hydra:10-11 | hydra:last4 | "
                                 "hydra:every2"};

}  // namespace

void apply_attention_spec(std::string_view spec, std::vector<AttentionSpec>& layers) {
  const auto depth = static_cast<std::int64_t>(layers.size());
  const auto canonical = [](std::string_view word) { return find_mechanism(word).name; };
  for (const LayerPart& part : parse_layers(spec, depth, kAttentionField, canonical)) {
    for (const std::int64_t layer : part.layers) {
      AttentionSpec& current = layers[static_cast<std::size_t>(layer)];
      // A layer that already runs the mechanism keeps the options its checkpoint was trained with.
      if (current.mechanism != part.name) current = {part.name, {}};
    }
  }
}

void apply_attention_option(std::string_view option, std::vector<AttentionSpec>& layers) {
  const LayerField field{"`attention_options`", kAttentionField.noun,
                         "layers are 3 | 0-9 | last4 | first2 | every2"};
  const LayerSetting setting =
      parse_layer_setting(option, "mechanism.key=value or mechanism:layers.key=value", field);
  const MechanismEntry& entry = find_mechanism(setting.name, field.subject);
  check_option(entry, setting.key, setting.value, field.subject);
  bool used = false;
  for (const std::int64_t layer :
       select_layers(setting.layers, std::ssize(layers), option, field)) {
    AttentionSpec& current = layers[static_cast<std::size_t>(layer)];
    if (current.mechanism != entry.name) continue;
    current.options[setting.key] = setting.value;
    used = true;
  }
  if (!used) {
    throw Error(ErrorCode::invalid_argument,
                (setting.layers ? "none of the layers '" + std::string(*setting.layers) + "' runs "
                                : "no layer runs ") +
                    entry.name,
                field.subject, "choose it with `attention`");
  }
}

std::map<std::string, std::string> attention_options(const std::vector<AttentionSpec>& layers) {
  std::map<std::string, std::set<std::string>> values;
  for (const AttentionSpec& layer : layers) {
    const MechanismOptions options(layer);
    for (const auto& [key, value] : options.all())
      values[layer.mechanism + "." + key].insert(value);
  }
  std::map<std::string, std::string> result;
  for (const auto& [key, distinct] : values) {
    std::string& text = result[key];
    for (const std::string& value : distinct) text += (text.empty() ? "" : "|") + value;
  }
  return result;
}

void check_stored_options(const std::vector<AttentionSpec>& trained,
                          const std::vector<AttentionSpec>& asked) {
  for (std::size_t layer = 0; layer < std::min(trained.size(), asked.size()); ++layer) {
    if (trained[layer].mechanism != asked[layer].mechanism) continue;
    const MechanismOptions before(trained[layer]);
    const MechanismOptions after(asked[layer]);
    for (const MechanismOption& option : find_mechanism(asked[layer].mechanism).options) {
      if (!option.of_stored_tensors || before.text(option.key) == after.text(option.key)) continue;
      throw Error(ErrorCode::invalid_argument,
                  "the checkpoint holds tensors made with " + option.key + "=" +
                      before.text(option.key) + ", which stay as they are",
                  "`attention_options` " + asked[layer].mechanism + "." + option.key + "=" +
                      after.text(option.key));
    }
  }
}

std::vector<AttentionSpec> with_all_options(std::vector<AttentionSpec> layers,
                                            const TokenGrid& training_grid) {
  for (AttentionSpec& layer : layers) {
    const MechanismOptions chosen(layer);
    layer.options = chosen.all();
    for (const MechanismOption& option : find_mechanism(layer.mechanism).options) {
      if (!option.is_extent) continue;
      const auto [rows, columns] = chosen.extent(option.key, training_grid);
      layer.options[option.key] =
          std::to_string(rows) + (rows == columns ? "" : "x" + std::to_string(columns));
    }
  }
  return layers;
}

std::string to_text(const std::vector<AttentionSpec>& layers) {
  if (layers.empty()) return "softmax";
  std::vector<std::string> names;
  for (const AttentionSpec& layer : layers) names.push_back(layer.mechanism);
  return layers_text(names);
}

}  // namespace hydrascope::model
