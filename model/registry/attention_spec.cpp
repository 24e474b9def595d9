#include "model/registry/attention_spec.h"

#include "kernels/error.h"
#include "model/registry/layer_choices.h"
#include "model/registry/mechanisms.h"

#include <algorithm>

namespace hydrascope::model {
namespace {

const LayerChoices<AttentionSpec, MechanismEntry>& mechanism_choices() {
  static const LayerChoices<AttentionSpec, MechanismEntry> of_mechanisms{
      mechanism_catalogue(),
      &AttentionSpec::mechanism,
      {"`attn`", "a mechanism's name",
       "examples: hydra | softmax:0-9,hydra:10-11 | hydra:last4 | hydra:every2"},
      "`attn_opt`",
      "mechanism.key=value or mechanism:layers.key=value",
      "layers are 3 | 0-9 | last4 | first2 | every2",
      "runs",
      {}};
  return of_mechanisms;
}

}  // namespace

void apply_attention_spec(std::string_view spec, std::vector<AttentionSpec>& layers) {
  mechanism_choices().apply(spec, layers);
}
void apply_attention_option(std::string_view option, std::vector<AttentionSpec>& layers) {
  mechanism_choices().apply_option(option, layers);
}
std::map<std::string, std::string> attention_options(const std::vector<AttentionSpec>& layers) {
  return mechanism_choices().values(layers);
}
std::string to_text(const std::vector<AttentionSpec>& layers) {
  return mechanism_choices().text(layers);
}

void check_stored_options(const std::vector<AttentionSpec>& trained,
                          const std::vector<AttentionSpec>& asked) {
  for (std::size_t layer = 0; layer < std::min(trained.size(), asked.size()); ++layer) {
    if (trained[layer].mechanism != asked[layer].mechanism) continue;
    const MechanismOptions before(trained[layer]);
    const MechanismOptions after(asked[layer]);
    for (const MechanismOption& option : find_mechanism(asked[layer].mechanism).options) {
      if (!option.of_stored_tensors || before.text(option.key) == after.text(option.key)) continue;
      throw Error(
          ErrorCode::invalid_argument,
          "the checkpoint holds tensors made with " + option.key + "=" + before.text(option.key) +
              ", which stay as they are",
          "`attn_opt` " + asked[layer].mechanism + "." + option.key + "=" + after.text(option.key));
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

}  // namespace hydrascope::model
