// The names of the measures of faithfulness: words that the command line offers, without LibTorch.
// faithfulness.h says what they compute.
#pragma once

#include "model/config/words.h"
#include "model/registry/entry_table.h"

#include <array>
#include <string_view>
#include <vector>

namespace hydrascope::model::explain {

enum class Measure { deletion, insertion };

struct MeasureEntry {
  Measure measure;
  std::string_view name;     ///< as `--measure` spells it
  std::string_view summary;  ///< one line for reports
  bool lower_is_better;
};
inline const std::vector<MeasureEntry>& measures() {
  static const std::vector<MeasureEntry> kEntries{
      {Measure::deletion, "deletion", "class probability while the hottest patches are replaced",
       true},
      {Measure::insertion, "insertion",
       "class probability while the hottest patches return to a blurred picture", false},
  };
  return kEntries;
}
inline const MeasureEntry& entry_of(Measure measure) {
  return entry_in(measures(), &MeasureEntry::measure, measure);
}
inline const MeasureEntry* find_measure_or_null(std::string_view name) {
  return find_in(measures(), name);
}

}  // namespace hydrascope::model::explain
