#include "app/maps/input_map.h"

#include "viz/page/markup.h"

#include <bit>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

namespace hydrascope::app {

namespace {

using model::explain::Method;

std::string_view method_name(const InputMap& map) {
  return model::explain::entry_of(map.choice.method).name;
}

/// {"a", "a", "b"} -> "layers 0-1 a, layer 2 b".
std::string describe_rules(const std::vector<std::string>& rules) {
  std::string text;
  for (std::size_t i = 0; i < rules.size();) {
    std::size_t last = i;
    while (last + 1 < rules.size() && rules[last + 1] == rules[i]) ++last;
    text += (text.empty() ? "" : ", ") + std::string(last > i ? "layers " : "layer ");
    text += std::to_string(i) + (last > i ? "-" + std::to_string(last) : "") + " " + rules[i];
    i = last + 1;
  }
  return text;
}

std::pair<double, double> smallest_and_largest(const viz::HeatMap& map) {
  double smallest = std::numeric_limits<double>::infinity();
  double largest = -smallest;
  for (const float value : map.values) {  // comparisons leave NaN out
    if (value < smallest) smallest = value;
    if (value > largest) largest = value;
  }
  return {smallest, largest};
}

static_assert(std::endian::native == std::endian::little, "maps are written as they lie in memory");

OrderedJson placed_axis(const viz::Axis& axis) {
  return {{"picture", axis.picture}, {"resized", axis.resized}, {"start", axis.window_start},
          {"window", axis.window},   {"output", axis.output},   {"cells", axis.cells}};
}

}  // namespace

std::string caption(const Prediction& prediction, LabelType label_type) {
  return label_text(prediction, label_type) + " " + fixed(prediction.prob * 100, 1) + " %";
}

std::vector<std::string> caption(const InputMap& map, LabelType label_type) {
  std::string how = std::string(method_name(map)) + ", layer " + std::to_string(map.choice.layer);
  if (map.choice.head.kind != Head::Kind::mean) how += ", head " + to_text(map.choice.head);
  return {caption(map.of_class, label_type), std::move(how)};
}

std::string quantity(const InputMap& map) {
  switch (map.choice.method) {
    case Method::hydra: return "contribution to the logit";
    case Method::attention:
    case Method::rollout: return "weight";
    case Method::grad_rollout:
    case Method::attn_gradcam: return "relevance";
    case Method::gradcam: return "activation";
  }
  return "";
}

MapRecord record_of(const MapRecord& facts, const InputMap& map) {
  MapRecord record = facts;
  record.of_class = map.of_class;
  record.method = model::explain::entry_of(map.choice.method).name;
  record.layer = map.choice.layer;
  record.head = to_text(map.choice.head);
  record.grid = {map.map.rows, map.map.columns};
  std::tie(record.minimum, record.maximum) = smallest_and_largest(map.map);
  record.cls_share = map.own_share;
  record.memory_share = map.memory_share;
  for (const std::string& clause : {map.note, describe_rules(map.rules)})
    if (!clause.empty()) record.note += (record.note.empty() ? "" : "; ") + clause;
  return record;
}

MapRecord record_of(const ClassifyRecord& record, const InputMap& map) {
  MapRecord facts;
  static_cast<InputRecord&>(facts) = record;
  facts.notes.clear();  // they are about the answer
  return record_of(facts, map);
}

OrderedJson explained_json(const ClassifyRecord& record, std::span<const InputMap> maps) {
  OrderedJson object = to_json(record);
  if (record.error) return object;
  OrderedJson& list = object["maps"] = OrderedJson::array();
  for (const InputMap& map : maps) {
    OrderedJson entry = to_json(record_of(record, map));
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
