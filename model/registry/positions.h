// The list of position rules of softmax's scores, beside the list of mechanisms. An entry is one
// file under model/attention/positions/ that defines a PositionRegistration. The command line,
// config validation and help enumerate this list. Free of LibTorch.
#pragma once

#include "model/registry/mechanisms.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model {

class PositionRule;

/// The rule of a layer that has none.
inline constexpr std::string_view kNoRule = "none";

/// A rule by its name and the options that differ from its defaults.
struct PositionSpec {
  std::string rule = std::string(kNoRule);
  std::map<std::string, std::string> options;
  friend bool operator==(const PositionSpec&, const PositionSpec&) = default;
};

struct PositionEntry {
  std::string name;
  std::vector<std::string> aliases = {};
  std::string summary = {};
  std::string citation = {};
  std::string scores = {};  ///< the equation, one line
  std::vector<MechanismOption> options = {};
  std::vector<MechanismParameter> parameters = {};
  std::int64_t head_multiple = 1;  ///< a head's features must be a multiple of it
  bool places_overview = false;    ///< patches of an overview have places, too (token_grid.h)
  /// FLOPs that it adds to a mechanism that scores `pairs` pairs (MixerCost): 2 x multiply-adds,
  /// and one for every other step of a pair. Angles and distances, once per size, are left out.
  std::function<double(const MixerSize&, const MechanismOptions&, double pairs)> cost = {};
  std::function<std::shared_ptr<const PositionRule>(const TokenMixerArguments&)> make = {};
};

Catalogue<PositionEntry>& position_catalogue();
using PositionRegistration = Registration<PositionEntry, position_catalogue>;

/// All entries, sorted by name.
inline const std::vector<const PositionEntry*>& position_rules() {
  return position_catalogue().all();
}
/// By name or alias; nullptr when there is none.
inline const PositionEntry* find_position_rule_or_null(std::string_view name_or_alias) {
  return position_catalogue().find_or_null(name_or_alias);
}
/// Throws Error(invalid_argument) that lists the entries. `subject`: the field with the name.
inline const PositionEntry& find_position_rule(std::string_view name_or_alias,
                                               const std::string& subject = "`rel_pos`") {
  return position_catalogue().find(name_or_alias, subject);
}

/// The options of one layer's rule with the defaults filled in; none for `kNoRule`.
MechanismOptions position_options(const PositionSpec& spec);

/// As `apply_attention_spec`: `rope`, `rope:0-5,none:6-11`.
void apply_position_spec(std::string_view spec, std::vector<PositionSpec>& layers);
/// `rule[:layers].key=value`. Throws Error(invalid_argument) when none of the layers has the rule.
void apply_position_option(std::string_view option, std::vector<PositionSpec>& layers);

/// Every option of every rule in use, in the form of `attention_options`.
std::map<std::string, std::string> position_option_values(const std::vector<PositionSpec>& layers);
/// The layers with the defaults filled in.
std::vector<PositionSpec> with_all_options(std::vector<PositionSpec> layers);
/// The text that `apply_position_spec` reads back; "none" without any rule.
std::string to_text(const std::vector<PositionSpec>& layers);

}  // namespace hydrascope::model
