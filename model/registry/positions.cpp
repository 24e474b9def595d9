#include "model/registry/positions.h"

#include "model/registry/layer_choices.h"

namespace hydrascope::model {
namespace {

constexpr const char* kOptionsField = "`rel_pos_opt`";

const LayerChoices<PositionSpec>& rule_choices() {
  static const LayerChoices<PositionSpec> of_rules{
      &PositionSpec::rule,
      {"`rel_pos`", "a rule's name", "examples: rope | rope:0-5,none:6-11 | alibi:last4"},
      kOptionsField,
      "rule.key=value or rule:layers.key=value",
      "examples: rope | rope:0-5,none:6-11 | alibi:last4",
      "has",
      kNoRule,
      [](std::string_view word, const std::string& subject) {
        return word == kNoRule ? std::string(kNoRule) : find_position_rule(word, subject).name;
      },
      [](const std::string& name, std::string_view key, std::string_view value,
         const std::string& subject) {
        check_option(name, find_position_rule(name, subject).options, key, value, subject);
      },
      position_options};
  return of_rules;
}

}  // namespace

Catalogue<PositionEntry>& position_catalogue() {
  static Catalogue<PositionEntry> entries("position rule", kNoRule);
  return entries;
}

MechanismOptions position_options(const PositionSpec& spec) {
  const PositionEntry& entry = find_position_rule(spec.rule);
  for (const auto& [key, value] : spec.options)
    check_option(entry.name, entry.options, key, value, kOptionsField);
  return {entry.options, spec.options};
}

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
