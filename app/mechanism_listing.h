// What the registry of attention mechanisms says to people and to shells. Free of LibTorch.
#pragma once

#include "app/report.h"

#include <iosfwd>
#include <string>
#include <vector>

namespace hydrascope::model {
struct MechanismEntry;
}

namespace hydrascope::app {

/// Names, without aliases, sorted.
std::vector<std::string> mechanism_names();
/// "hedgehog.variant=exp", "performer.features=": what --attn-opt may be given.
std::vector<std::string> mechanism_settings();

/// All that is known of one mechanism: `hydrascope models info hedgehog`.
void write_mechanism(const model::MechanismEntry& entry, Format format, std::ostream& out);

}  // namespace hydrascope::app
