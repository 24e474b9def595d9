#include "model/registry/positions.h"

#include "kernels/error.h"
#include "model/registry/layer_grammar.h"

#include <algorithm>
#include <set>
#include <utility>

namespace hydrascope::model {
namespace {

// Function-local, because registrations run before main in an unspecified order.
std::vector<std::unique_ptr<PositionEntry>>& rule_storage() {
  static std::vector<std::unique_ptr<PositionEntry>> entries;
  return entries;
}

std::vector<const PositionEntry*>& sorted_rules() {
  static std::vector<const PositionEntry*> entries;
  return entries;
}

constexpr const char* kOptionsField = "`rel_pos_options`";

const LayerField& position_field() {
  static const LayerField field{"`rel_pos`", "a rule's name",
                                "examples: rope | rope:0-5,none:6-11 | alibi:last4"};
  return field;
}

std::string canonical_rule(std::string_view word) {
  return word == kNoRule ? std::string(kNoRule) : find_position_rule(word).name;
}

}  // namespace

const std::vector<const PositionEntry*>& position_rules() { return sorted_rules(); }

const PositionEntry* find_position_rule_or_null(std::string_view name) {
  for (const PositionEntry* entry : sorted_rules()) {
    if (entry->name == name) return entry;
    if (std::ranges::find(entry->aliases, name) != entry->aliases.end()) return entry;
  }
  return nullptr;
}

const PositionEntry& find_position_rule(std::string_view name_or_alias,
                                        const std::string& subject) {
  if (const PositionEntry* entry = find_position_rule_or_null(name_or_alias)) return *entry;
  std::string known(kNoRule);
  for (const PositionEntry* entry : sorted_rules()) known += ", " + entry->name;
  throw Error(ErrorCode::invalid_argument,
              "unknown position rule '" + std::string(name_or_alias) + "'", subject,
              "this build has: " + known);
}

void check_option(const PositionEntry& entry, std::string_view key, std::string_view value,
                  const std::string& subject) {
  const MechanismEntry declared{.name = entry.name, .options = entry.options};
  check_option(declared, key, value, subject);
}

MechanismOptions position_options(const PositionSpec& spec) {
  const PositionEntry& entry = find_position_rule(spec.rule);
  for (const auto& [key, value] : spec.options) check_option(entry, key, value, kOptionsField);
  return {entry.options, spec.options};
}

void apply_position_spec(std::string_view spec, std::vector<PositionSpec>& layers) {
  const auto depth = static_cast<std::int64_t>(layers.size());
  for (const LayerPart& part : parse_layers(spec, depth, position_field(), canonical_rule)) {
    for (const std::int64_t layer : part.layers) {
      PositionSpec& current = layers[static_cast<std::size_t>(layer)];
      if (current.rule != part.name) current = {part.name, {}};
    }
  }
}

void apply_position_option(std::string_view option, std::vector<PositionSpec>& layers) {
  const LayerField field{kOptionsField, position_field().noun, position_field().examples};
  const LayerSetting setting =
      parse_layer_setting(option, "rule.key=value or rule:layers.key=value", field);
  const PositionEntry& entry = find_position_rule(setting.name, kOptionsField);
  check_option(entry, setting.key, setting.value, kOptionsField);
  bool used = false;
  for (const std::int64_t layer :
       select_layers(setting.layers, std::ssize(layers), option, field)) {
    PositionSpec& current = layers[static_cast<std::size_t>(layer)];
    if (current.rule != entry.name) continue;
    current.options[setting.key] = setting.value;
    used = true;
  }
  if (!used) {
    throw Error(ErrorCode::invalid_argument,
                (setting.layers ? "none of the layers '" + std::string(*setting.layers) + "' has "
                                : "no layer has ") +
                    entry.name,
                kOptionsField, "choose it with `rel_pos`");
  }
}

std::map<std::string, std::string> position_option_values(const std::vector<PositionSpec>& layers) {
  std::map<std::string, std::set<std::string>> values;
  for (const PositionSpec& layer : layers) {
    if (layer.rule == kNoRule) continue;
    const auto options = position_options(layer);
    for (const auto& [key, value] : options.all()) values[layer.rule + "." + key].insert(value);
  }
  std::map<std::string, std::string> result;
  for (const auto& [key, distinct] : values) {
    std::string& text = result[key];
    for (const std::string& value : distinct) text += (text.empty() ? "" : "|") + value;
  }
  return result;
}

std::vector<PositionSpec> with_all_options(std::vector<PositionSpec> layers) {
  for (PositionSpec& layer : layers)
    if (layer.rule != kNoRule) layer.options = position_options(layer).all();
  return layers;
}

std::string to_text(const std::vector<PositionSpec>& layers) {
  std::vector<std::string> names{std::string(kNoRule)};
  if (!layers.empty()) names.clear();
  for (const PositionSpec& layer : layers) names.push_back(layer.rule);
  return layers_text(names);
}

PositionRegistration::PositionRegistration(PositionEntry entry) {
  const auto refuse_second = [](const std::string& name) {
    if (name == kNoRule || find_position_rule_or_null(name) != nullptr)
      throw Error(ErrorCode::internal, "position rule '" + name + "' is registered twice");
  };
  refuse_second(entry.name);
  for (const std::string& alias : entry.aliases) refuse_second(alias);
  rule_storage().push_back(std::make_unique<PositionEntry>(std::move(entry)));
  sorted_rules().push_back(rule_storage().back().get());
  std::ranges::sort(sorted_rules(), {}, &PositionEntry::name);
}

}  // namespace hydrascope::model
