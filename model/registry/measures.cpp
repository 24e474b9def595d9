#include "model/registry/measures.h"

namespace hydrascope::model::explain {

const std::vector<MeasureEntry>& measures() {
  static const std::vector<MeasureEntry> kEntries{
      {Measure::deletion, "deletion", "class probability while the hottest patches are replaced",
       true},
      {Measure::insertion, "insertion",
       "class probability while the hottest patches return to a blurred picture", false},
      {Measure::positive, "positive",
       "accuracy with the hottest 10 % ... 90 % of the patches replaced", true},
      {Measure::negative, "negative",
       "accuracy with the coldest 10 % ... 90 % of the patches replaced", false},
  };
  return kEntries;
}

const std::vector<SubstrateEntry>& substrates() {
  static const std::vector<SubstrateEntry> kEntries{
      {Substrate::mean, "mean"}, {Substrate::black, "black"}, {Substrate::blur, "blur"}};
  return kEntries;
}

}  // namespace hydrascope::model::explain
