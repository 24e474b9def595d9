#include "model/attention/registry.h"

#include "kernels/error.h"

#include <algorithm>
#include <memory>

namespace hydrascope::model {
namespace {

// Function-local, because registrations run before main in an unspecified order.
std::vector<std::unique_ptr<MechanismEntry>>& storage() {
  static std::vector<std::unique_ptr<MechanismEntry>> entries;
  return entries;
}

std::vector<const MechanismEntry*>& sorted_entries() {
  static std::vector<const MechanismEntry*> entries;
  return entries;
}

const MechanismEntry* look_up(std::string_view name) {
  for (const MechanismEntry* entry : sorted_entries()) {
    if (entry->name == name) return entry;
    if (std::ranges::find(entry->aliases, name) != entry->aliases.end()) return entry;
  }
  return nullptr;
}

}  // namespace

const std::vector<const MechanismEntry*>& mechanisms() { return sorted_entries(); }

const MechanismEntry& find_mechanism(std::string_view name_or_alias) {
  if (const MechanismEntry* entry = look_up(name_or_alias)) return *entry;
  std::string known;
  for (const MechanismEntry* entry : sorted_entries())
    known += (known.empty() ? "" : ", ") + entry->name;
  throw Error(ErrorCode::invalid_argument,
              "unknown attention mechanism '" + std::string(name_or_alias) + "'", "--attn",
              "this build has: " + known);
}

MechanismRegistration::MechanismRegistration(MechanismEntry entry) {
  for (const std::string& alias : entry.aliases) {
    if (look_up(alias) != nullptr) {
      throw Error(ErrorCode::internal, "attention mechanism '" + alias + "' is registered twice");
    }
  }
  if (look_up(entry.name) != nullptr) {
    throw Error(ErrorCode::internal,
                "attention mechanism '" + entry.name + "' is registered twice");
  }
  storage().push_back(std::make_unique<MechanismEntry>(std::move(entry)));
  sorted_entries().push_back(storage().back().get());
  std::ranges::sort(sorted_entries(), {}, &MechanismEntry::name);
}

}  // namespace hydrascope::model
