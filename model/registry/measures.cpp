#include "model/registry/measures.h"

namespace hydrascope::model::explain {

const std::vector<MeasureEntry>& measures() {
  static const std::vector<MeasureEntry> kEntries{
      {Measure::deletion, "deletion", "class probability while the hottest patches are replaced",
       true},
      {Measure::insertion, "insertion",
       "class probability while the hottest patches return to a blurred picture", false},
  };
  return kEntries;
}

}  // namespace hydrascope::model::explain
