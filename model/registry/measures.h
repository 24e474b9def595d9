// The names of the measures of faithfulness and of the substitutes of a patch: words that the
// command line offers, without LibTorch. faithfulness.h and substrate.h say what they compute.
#pragma once

#include "model/registry/entry_table.h"

#include <string_view>
#include <vector>

namespace hydrascope::model::explain {

enum class Measure { deletion, insertion, positive, negative };

struct MeasureEntry {
  Measure measure;
  std::string_view name;     ///< as `--measure` spells it
  std::string_view summary;  ///< one line for reports
  bool lower_is_better;
};
const std::vector<MeasureEntry>& measures();
inline const MeasureEntry& entry_of(Measure measure) {
  return entry_in(measures(), &MeasureEntry::measure, measure);
}
inline const MeasureEntry* find_measure_or_null(std::string_view name) {
  return find_in(measures(), name);
}

enum class Substrate { mean, black, blur };

struct SubstrateEntry {
  Substrate substrate;
  std::string_view name;  ///< as `--substrate` spells it
};
const std::vector<SubstrateEntry>& substrates();
inline const SubstrateEntry& entry_of(Substrate substrate) {
  return entry_in(substrates(), &SubstrateEntry::substrate, substrate);
}
inline const SubstrateEntry* find_substrate_or_null(std::string_view name) {
  return find_in(substrates(), name);
}

}  // namespace hydrascope::model::explain
