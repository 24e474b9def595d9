// The list of memories over the frames of a video, beside the lists of mechanisms and position rules.
// An entry is one file under model/attention/memories/ that defines a MemoryRegistration. The command
// line and help enumerate this list. A memory is a choice of a run and no part of a checkpoint. Free of
// LibTorch.
#pragma once

#include "model/registry/mechanisms.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model {

class FrameMemory;
struct VitConfig;

/// A layer that sees each frame alone.
inline constexpr std::string_view kNoMemory = "none";

/// A memory by its name and the options that differ from its defaults.
struct MemorySpec {
  std::string memory = std::string(kNoMemory);
  std::map<std::string, std::string> options = {};
  friend bool operator==(const MemorySpec&, const MemorySpec&) = default;
};

struct MemoryEntry {
  std::string name;
  std::vector<std::string> aliases = {};
  std::string summary = {};
  std::string citation = {};
  std::string equation = {};  ///< one line
  std::vector<MechanismOption> options = {};
  std::vector<MechanismParameter> parameters = {};  ///< none: nothing is learned
  /// The part of earlier frames that a layer keeps: the sums over tokens that its queries read
  /// (MechanismEntry::has_state), or keys and values (MechanismEntry::takes_other_tokens, without a
  /// position rule).
  enum class Keeps { state, tokens };
  Keeps keeps = Keeps::state;
  std::function<std::unique_ptr<FrameMemory>(const MechanismOptions&)> make = {};
};

Catalogue<MemoryEntry>& memory_catalogue();
using MemoryRegistration = Registration<MemoryEntry, memory_catalogue>;

/// All entries, sorted by name.
inline const std::vector<const MemoryEntry*>& memories() { return memory_catalogue().all(); }
/// By name or alias; nullptr when there is none.
inline const MemoryEntry* find_memory_or_null(std::string_view name_or_alias) {
  return memory_catalogue().find_or_null(name_or_alias);
}
/// Throws Error(invalid_argument) that lists the entries. `subject`: the field with the name.
inline const MemoryEntry& find_memory(std::string_view name_or_alias,
                                      const std::string& subject = "`memory`") {
  return memory_catalogue().find(name_or_alias, subject);
}

/// The options of one layer's memory with the defaults filled in. Throws what `check_option` throws.
MechanismOptions memory_options(const MemorySpec& spec);

/// The memories of all layers of `config`: `spec` is `state`, `state:6-11`, `xl:last2,state:0-3`, and
/// an option `state.lambda=0.5` or `xl:last2.frames=2`. A spec without layers means the layers that can
/// have the memory; empty without any memory. Throws Error(invalid_argument), also where a layer that
/// is named, or none at all, can have its memory.
std::vector<MemorySpec> choose_memories(std::string_view spec,
                                        const std::vector<std::string>& options,
                                        const VitConfig& config);

/// "state:10-11 state.lambda=0.7": the layers' memories and their options with the defaults filled in.
std::string to_text(const std::vector<MemorySpec>& layers);

}  // namespace hydrascope::model
