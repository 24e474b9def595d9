#include "app/maps/explained_record.h"

#include "viz/page/markup.h"

#include <bit>
#include <utility>

namespace hydrascope::app {
namespace {

static_assert(std::endian::native == std::endian::little, "maps are written as they lie in memory");

OrderedJson placed_axis(const viz::Axis& axis) {
  return {{"picture", axis.picture}, {"resized", axis.resized}, {"start", axis.window_start},
          {"window", axis.window},   {"output", axis.output},   {"cells", axis.cells}};
}

}  // namespace

OrderedJson explained_json(const ClassifyRecord& record, std::span<const InputMap> maps) {
  OrderedJson object = to_json(record);
  if (record.error) return object;
  MapRecord facts;
  static_cast<InputRecord&>(facts) = record;
  OrderedJson& list = object["maps"] = OrderedJson::array();
  for (const InputMap& map : maps) {
    OrderedJson entry = to_json(record_of(facts, map));
    entry["of_class"] = model::explain::entry_of(map.choice.method).of_class;
    entry["signed"] = map.is_signed;
    entry["quantity"] = quantity(map);
    entry["total"] = rounded(map.total);
    entry["additive"] = map.is_additive;
    entry["vertical"] = placed_axis(map.placement.vertical);
    entry["horizontal"] = placed_axis(map.placement.horizontal);
    entry["values"] = viz::page::base64(std::as_bytes(std::span(map.map.values)));
    list.push_back(std::move(entry));
  }
  return object;
}

}  // namespace hydrascope::app
