#include "model/registry/memories.h"

#include "kernels/error.h"
#include "model/config/config.h"
#include "model/registry/layer_choices.h"

#include <algorithm>

namespace hydrascope::model {
namespace {

constexpr const char* kMemoryField = "`memory`";

const LayerChoices<MemorySpec, MemoryEntry>& memory_choices() {
  static const LayerChoices<MemorySpec, MemoryEntry> of_memories{
      memory_catalogue(),
      &MemorySpec::memory,
      {kMemoryField, "a memory's name", "examples: state | state:6-11 | xl:last2"},
      "`memory_opt`",
      "memory.key=value or memory:layers.key=value",
      "layers are 3 | 0-9 | last4 | first2 | every2",
      "has",
      kNoMemory};
  return of_memories;
}

/// The reason why a layer cannot have a memory; empty if it can.
std::string why_no_memory(const MemoryEntry& entry, std::int64_t layer, const VitConfig& config) {
  if (config.halting) return "the tokens of a halting model leave between its layers";
  if (config.share_blocks > 0) return "layers that share blocks have no memory of their own";
  const MechanismEntry& mechanism = find_mechanism(config.attention_of(layer).mechanism);
  const std::string of_layer = "'" + mechanism.name + "' of layer " + std::to_string(layer);
  if (entry.keeps == MemoryEntry::Keeps::state)
    return mechanism.has_state ? "" : of_layer + " has no sums over the tokens that it could keep";
  if (!mechanism.takes_other_tokens) return of_layer + " takes no keys of other pictures";
  if (config.rel_pos_of(layer).rule != kNoRule)
    return "the position rule of layer " + std::to_string(layer) + " knows one picture alone";
  return {};
}

}  // namespace

Catalogue<MemoryEntry>& memory_catalogue() {
  static Catalogue<MemoryEntry> entries("memory", kNoMemory);
  return entries;
}

MechanismOptions memory_options(const MemorySpec& spec) { return memory_choices().options(spec); }

std::vector<MemorySpec> choose_memories(std::string_view spec,
                                        const std::vector<std::string>& options,
                                        const VitConfig& config) {
  std::vector<MemorySpec> layers(static_cast<std::size_t>(config.depth));
  if (!spec.empty()) memory_choices().apply(spec, layers);
  const bool are_named = spec.find(':') != std::string_view::npos;
  std::string why;
  for (std::int64_t layer = 0; layer < config.depth; ++layer) {
    MemorySpec& chosen = layers[static_cast<std::size_t>(layer)];
    if (chosen.memory == kNoMemory) continue;
    const std::string of_layer = why_no_memory(find_memory(chosen.memory), layer, config);
    if (of_layer.empty()) continue;
    if (why.empty()) why = of_layer;
    chosen = {};
  }
  const auto is_none = [](const MemorySpec& layer) { return layer.memory == kNoMemory; };
  const bool has_none = std::ranges::all_of(layers, is_none);
  if (!why.empty() && (are_named || has_none))
    throw Error(ErrorCode::invalid_argument, why, kMemoryField + (" " + std::string(spec)),
                "state is for hydra, hedgehog and other linear attention, xl for softmax");
  for (const std::string& option : options) memory_choices().apply_option(option, layers);
  if (has_none) layers.clear();
  return layers;
}

std::string to_text(const std::vector<MemorySpec>& layers) {
  std::string text = memory_choices().text(layers);
  for (const auto& [key, value] : memory_choices().values(layers)) text += " " + key + "=" + value;
  return text;
}

}  // namespace hydrascope::model
