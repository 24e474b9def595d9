// The registry of attention mechanisms as text for people.
#pragma once

#include "app/results/report.h"

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
/// The same of position rules and of memories over frames, "none" before them.
std::vector<std::string> position_names();
std::vector<std::string> memory_names();

/// All that is known of one mechanism: `hydrascope models info hedgehog`.
Report mechanism_report(const model::MechanismEntry& entry);
/// The same of one position rule: `hydrascope models info rope`.
Report position_rule_report(const model::PositionEntry& entry);
/// The same of one memory: `hydrascope models info state`.
Report memory_report(const model::MemoryEntry& entry);

}  // namespace hydrascope::app
