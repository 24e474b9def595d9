// The list of attention mechanisms. An entry is one file under mechanisms/ that defines a
// MechanismRegistration; the command line, config validation, benchmark, tests and help enumerate
// this list and nothing else needs editing.
#pragma once

#include "model/attention/attention_spec.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model {

class TokenMixer;
struct TokenMixerArguments;

/// One `--attn-opt mechanism.key=value`.
struct MechanismOption {
  std::string key;
  std::string default_value;
  std::vector<std::string> choices;  ///< empty = free text, checked by the factory
  std::string help;
};

/// Size of one layer's problem, for costs.
struct MixerSize {
  std::int64_t num_tokens = 0;
  std::int64_t embed_dim = 0;
  std::int64_t num_heads = 0;
  std::int64_t bytes_per_element = 4;
};

/// Per image and layer, qkv and proj excluded. FLOPs = 2 x multiply-adds.
struct MixerCost {
  double flops = 0;
  double bytes = 0;
};

struct MechanismEntry {
  std::string name;
  std::vector<std::string> aliases = {};
  std::string summary = {};
  std::string citation = {};
  std::vector<MechanismOption> options = {};
  bool rows_sum_to_one = false;     ///< of its attention map
  std::string map_definition = {};  ///< what A_ij is, one line
  std::function<MixerCost(const MixerSize&)> cost = {};
  std::function<std::unique_ptr<TokenMixer>(const TokenMixerArguments&)> make = {};
};

/// All entries, sorted by name.
const std::vector<const MechanismEntry*>& mechanisms();

/// By name or alias; throws Error(invalid_argument) that lists what exists.
const MechanismEntry& find_mechanism(std::string_view name_or_alias);

/// Static objects of this type fill the registry; a second entry of a name or alias stops the
/// program's start with Error(internal).
class MechanismRegistration {
 public:
  explicit MechanismRegistration(MechanismEntry entry);
};

}  // namespace hydrascope::model
