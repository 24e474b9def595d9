#include "model/explain/measure.h"

#include <algorithm>

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

const MeasureEntry& entry_of(Measure measure) {
  return *std::ranges::find(measures(), measure, &MeasureEntry::measure);
}

const MeasureEntry* find_measure_or_null(std::string_view name) {
  const auto found = std::ranges::find(measures(), name, &MeasureEntry::name);
  return found == measures().end() ? nullptr : &*found;
}

const std::vector<SubstrateEntry>& substrates() {
  static const std::vector<SubstrateEntry> kEntries{
      {Substrate::mean, "mean"}, {Substrate::black, "black"}, {Substrate::blur, "blur"}};
  return kEntries;
}

const SubstrateEntry& entry_of(Substrate substrate) {
  return *std::ranges::find(substrates(), substrate, &SubstrateEntry::substrate);
}

const SubstrateEntry* find_substrate_or_null(std::string_view name) {
  const auto found = std::ranges::find(substrates(), name, &SubstrateEntry::name);
  return found == substrates().end() ? nullptr : &*found;
}

}  // namespace hydrascope::model::explain
