// The registry of attention mechanisms as text for people and for shells.
#pragma once

#include "app/results/report.h"

#include <filesystem>
#include <string>
#include <vector>

namespace hydrascope::model {
struct MechanismEntry;
struct PositionEntry;
struct MemoryEntry;
}  // namespace hydrascope::model

namespace hydrascope::app {

/// Names, without aliases, sorted.
std::vector<std::string> mechanism_names();
/// "hedgehog.variant=exp", "performer.features=": what --set attn-opt= may be given.
std::vector<std::string> mechanism_settings();
/// The same of position rules: "none" and their names, "rope.base=".
std::vector<std::string> position_names();
std::vector<std::string> position_settings();
/// The same of memories over frames: "none" and their names, "state.lambda=".
std::vector<std::string> memory_names();
std::vector<std::string> memory_settings();

/// All that is known of one mechanism: `hydrascope models info hedgehog`.
Report mechanism_report(const model::MechanismEntry& entry);
/// The same of one position rule: `hydrascope models info rope`.
Report position_rule_report(const model::PositionEntry& entry);
/// The same of one memory: `hydrascope models info state`.
Report memory_report(const model::MemoryEntry& entry);

/// Writes C++ that registers what the command line says of mechanisms, rules and memories, without what computes
/// them: the front, which has none of their files, is built with it. Returns an exit code.
int write_registrations(const std::filesystem::path& file);

}  // namespace hydrascope::app
