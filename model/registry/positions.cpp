#include "model/registry/positions.h"

#include "model/registry/layer_choices.h"

namespace hydrascope::model {
namespace {

const LayerChoices<PositionSpec, PositionEntry>& rule_choices() {
  static const LayerChoices<PositionSpec, PositionEntry> of_rules{
      position_catalogue(),
      &PositionSpec::rule,
      {"`rel_pos`", "a rule's name", "examples: rope | rope:0-5,none:6-11 | alibi:last4"},
      "`rel_pos_opt`",
      "rule.key=value or rule:layers.key=value",
      "examples: rope | rope:0-5,none:6-11 | alibi:last4",
      "has",
      kNoRule};
  return of_rules;
}

}  // namespace

Catalogue<PositionEntry>& position_catalogue() {
  static Catalogue<PositionEntry> entries("position rule", kNoRule);
  return entries;
}

MechanismOptions position_options(const PositionSpec& spec) { return rule_choices().options(spec); }

void apply_position_spec(std::string_view spec, std::vector<PositionSpec>& layers) {
  rule_choices().apply(spec, layers);
}
void apply_position_option(std::string_view option, std::vector<PositionSpec>& layers) {
  rule_choices().apply_option(option, layers);
}
std::map<std::string, std::string> position_option_values(const std::vector<PositionSpec>& layers) {
  return rule_choices().values(layers);
}
std::string to_text(const std::vector<PositionSpec>& layers) { return rule_choices().text(layers); }

std::vector<PositionSpec> with_all_options(std::vector<PositionSpec> layers) {
  for (PositionSpec& layer : layers)
    if (layer.rule != kNoRule) layer.options = position_options(layer).all();
  return layers;
}

}  // namespace hydrascope::model
