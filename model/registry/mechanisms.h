// The list of attention mechanisms. An entry is one file under mechanisms/ that defines a
// MechanismRegistration. The command line, config validation, benchmark, tests and help enumerate
// this list, so nothing else needs editing.
#pragma once

#include "model/attention/token_grid.h"
#include "model/registry/attention_spec.h"
#include "model/registry/catalogue.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::model {

class TokenMixer;
struct TokenMixerArguments;

/// One `--set attn-opt=mechanism.key=value`.
struct MechanismOption {
  std::string key;
  std::string default_value;
  std::vector<std::string> choices;  ///< empty = a number between `minimum` and `maximum`
  std::string help;
  double minimum = 0;
  double maximum = 0;
  bool integer = false;  ///< a number without a fraction
  /// Patches along both axes of the grid: one integer, or two as 14x24; 0 is the training grid's.
  bool is_extent = false;
  /// It says how a checkpoint's tensors were made, so it cannot be changed for these tensors.
  bool of_stored_tensors = false;
  /// Choices of earlier versions, which the last of `choices` replaces; checkpoints name them.
  std::vector<std::string> former_choices = {};
};

/// A tensor that a mechanism adds below `attn.` of its layer.
struct MechanismParameter {
  std::string name;            ///< "feature_map.weight"
  std::string shape;           ///< in letters: "(H, d, F)"
  std::string initialisation;  ///< "identity"
};

/// Size of one layer's problem, for costs.
struct MixerSize {
  TokenGrid grid;
  std::int64_t embed_dim = 0;
  std::int64_t num_heads = 0;
  std::int64_t bytes_per_element = 4;
  TokenGrid training_grid = {};  ///< the grid of options that are 0
  std::int64_t layer_index = 0;
  std::int64_t depth = 1;
  [[nodiscard]] std::int64_t num_tokens() const { return grid.num_tokens(); }
  [[nodiscard]] std::int64_t head_dim() const { return embed_dim / num_heads; }
};

/// Cost per image and layer, without qkv and proj. FLOPs = 2 x multiply-adds; bytes are a fused
/// operation's: q, k, v read once, the output written once, and the state.
struct MixerCost {
  double flops = 0;
  double bytes = 0;
  double pairs = 0;  ///< of tokens that get a score, each head's on average
};

/// The options of one layer with the defaults filled in; they decide the layer's function.
class MechanismOptions {
 public:
  /// Throws what `check_option` throws.
  MechanismOptions(const AttentionSpec& spec);  // NOLINT(google-explicit-constructor)
  /// `chosen` over the defaults of an entry of any kind. Throws what `check_option` throws.
  template <class Entry>
  MechanismOptions(const Entry& entry, const std::map<std::string, std::string>& chosen,
                   const std::string& subject) {
    for (const MechanismOption& option : entry.options) values_[option.key] = option.default_value;
    for (const auto& [key, value] : chosen) {
      check_option(entry, key, value, subject);
      if (values_.contains(key)) values_[key] = value;
    }
  }
  [[nodiscard]] const std::string& text(const std::string& key) const;
  [[nodiscard]] double number(const std::string& key) const;
  [[nodiscard]] bool on(const std::string& key) const { return text(key) == "on"; }
  [[nodiscard]] std::int64_t integer(const std::string& key) const;
  /// At least one patch each; 0 means `training`'s.
  [[nodiscard]] GridExtent extent(const std::string& key, const TokenGrid& training) const;
  [[nodiscard]] const std::map<std::string, std::string>& all() const noexcept { return values_; }

 private:
  std::map<std::string, std::string> values_;
};

/// The description of a mechanism; the command line, the documentation and the conformance tests
/// believe it.
struct MechanismEntry {
  std::string name;
  std::vector<std::string> aliases = {};
  std::string summary = {};
  std::string citation = {};
  std::vector<MechanismOption> options = {};
  /// Options of earlier versions with their one remaining value: checkpoints name them.
  std::map<std::string, std::string> former_options = {};
  std::vector<MechanismParameter> parameters = {};
  std::string map_definition = {};  ///< the definition of A_ij, one line
  bool has_map = true;              ///< false: each feature has its own
  bool rows_sum_to_one = false;     ///< true of its attention map
  bool non_negative = false;        ///< the weights of its attention map
  bool normalised = false;          ///< repeating every token changes nothing
  bool permutation_equivariant = true;
  bool quadratic = false;         ///< its definition needs N x N weights
  bool sparse = false;            ///< a query sees some of the tokens
  bool fixed_num_tokens = false;  ///< tied to the number of tokens it was trained at
  bool query_is_input = false;    ///< q is the layer's input, no query projection
  bool takes_positions = false;   ///< it has scores of pairs that a position rule may change
  // For memories over frames (memories.h):
  bool has_state = false;           ///< queries read sums over the tokens (TokenMixer::mix_state)
  bool takes_other_tokens = false;  ///< keys of other pictures beside its own (mix_beside)
  /// A conversion can fit its first weights to the teacher (model/training/distillation/hydra_start.h).
  bool starts_fitted = false;
  std::function<MixerCost(const MixerSize&, const MechanismOptions&)> cost = {};
  /// Elements of the tensors that it adds to a layer trained at this size; empty = none.
  std::function<double(const MixerSize&, const MechanismOptions&)> added_elements = {};
  std::function<std::unique_ptr<TokenMixer>(const TokenMixerArguments&)> make = {};
};

Catalogue<MechanismEntry>& mechanism_catalogue();
using MechanismRegistration = Registration<MechanismEntry, mechanism_catalogue>;

/// All entries, sorted by name.
inline const std::vector<const MechanismEntry*>& mechanisms() {
  return mechanism_catalogue().all();
}
/// By name or alias; nullptr when there is none.
inline const MechanismEntry* find_mechanism_or_null(std::string_view name_or_alias) {
  return mechanism_catalogue().find_or_null(name_or_alias);
}
/// By name or alias; throws Error(invalid_argument) that lists the entries. `subject`: the field
/// with the name.
inline const MechanismEntry& find_mechanism(std::string_view name_or_alias,
                                            const std::string& subject = "`attn`") {
  return mechanism_catalogue().find(name_or_alias, subject);
}

/// Throws Error(invalid_argument) when `entry` has no option `key` or does not take `value`; the
/// message names `subject`.
void check_option(const MechanismEntry& entry, std::string_view key, std::string_view value,
                  const std::string& subject);
void check_option(const std::string& entry, const std::vector<MechanismOption>& options,
                  std::string_view key, std::string_view value, const std::string& subject);
/// The same for an entry of another kind.
template <class Entry>
void check_option(const Entry& entry, std::string_view key, std::string_view value,
                  const std::string& subject) {
  check_option(entry.name, entry.options, key, value, subject);
}

// Options of the usual kinds. A mechanism makes one object of each, lists it in its entry and reads
// a layer's value by calling it, so a key is spelt once.

class NumberOption : public MechanismOption {
 public:
  NumberOption(std::string key, std::string default_value, double minimum, double maximum,
               std::string help);
  double operator()(const MechanismOptions& options) const { return options.number(key); }
};

class IntegerOption : public MechanismOption {
 public:
  IntegerOption(std::string key, std::int64_t default_value, std::int64_t minimum,
                std::int64_t maximum, std::string help);
  std::int64_t operator()(const MechanismOptions& options) const { return options.integer(key); }
};

/// `MechanismOption::is_extent` of 0 to 65536 patches, by default the training grid.
class ExtentOption : public IntegerOption {
 public:
  ExtentOption(std::string key, std::string help);
  GridExtent operator()(const MechanismOptions& options, const TokenGrid& training) const {
    return options.extent(key, training);
  }
};

/// One of several words, the first one by default; each stands for a value.
template <class T>
class ChoiceOption : public MechanismOption {
 public:
  ChoiceOption(std::string of_key, std::vector<std::pair<std::string, T>> of_words,
               std::string of_help)
      : values_(std::move(of_words)) {
    key = std::move(of_key);
    help = std::move(of_help);
    for (const auto& [word, value] : values_) choices.push_back(word);
    default_value = values_.front().first;
  }
  const T& operator()(const MechanismOptions& options) const {
    const std::string& chosen = options.text(key);
    std::size_t index = 0;
    while (values_[index].first != chosen) ++index;  // `check_option` has let it pass
    return values_[index].second;
  }

 private:
  std::vector<std::pair<std::string, T>> values_;
};

class SwitchOption : public ChoiceOption<bool> {
 public:
  SwitchOption(std::string key, bool default_value, std::string help);
};

/// The same option, for the tensors of a checkpoint.
template <class Option>
Option of_stored_tensors(Option option) {
  option.of_stored_tensors = true;
  return option;
}
/// "exp|softmax2" or "1 to 8": the values of the option.
std::string describe_values(const MechanismOption& option);

}  // namespace hydrascope::model
