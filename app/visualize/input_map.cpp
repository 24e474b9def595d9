#include "app/visualize/input_map.h"

#include "app/results/json.h"

#include <algorithm>
#include <string_view>

namespace hydrascope::app {

namespace {

/// A scene's range is followed within a second or two.
constexpr double kLeastRangeSmoothing = 0.9;

viz::ValueRange mean_range(viz::TemporalMean& mean, const viz::ValueRange& range) {
  const viz::HeatMap kept = mean.add({1, 2, {range.low, range.high}});
  return {kept.values[0], kept.values[1]};
}

}  // namespace

SteadyMaps::SteadyMaps(double smoothing) : smoothing_(smoothing) {}

SteadyMaps::Slot SteadyMaps::new_slot(const InputMap& map) const {
  return {map.of_class.index, viz::TemporalMean(smoothing_), viz::TemporalMean(smoothing_),
          viz::TemporalMean(std::max(smoothing_, kLeastRangeSmoothing))};
}

SteadyMaps::Slot& SteadyMaps::slot_for(std::size_t place, const InputMap& map) {
  if (place == slots_.size()) slots_.push_back(new_slot(map));
  Slot& slot = slots_.at(place);
  const bool of_class = model::explain::entry_of(map.choice.method).of_class;
  if (of_class && slot.class_index != map.of_class.index) slot = new_slot(map);
  return slot;
}

std::vector<ShownMap> SteadyMaps::add(std::vector<InputMap>& maps, const FigureOptions& options) {
  std::vector<ShownMap> shown;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    Slot& slot = slot_for(i, maps[i]);
    maps[i].map = slot.map.add(maps[i].map);
    const viz::HeatMap share = slot.own_share.add({1, 1, {static_cast<float>(maps[i].own_share)}});
    maps[i].own_share = share.values[0];
    ShownMap& map = shown.emplace_back(shown_map(maps[i], options));
    map.range = mean_range(slot.range, map.range);
  }
  return shown;
}

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

}  // namespace

std::string array_name(const InputMap& map) {
  return std::string(method_name(map)) + ".layer" + std::to_string(map.choice.layer) + ".head-" +
         to_text(map.choice.head) + ".class" + std::to_string(map.of_class.index);
}

std::vector<std::string> caption(const InputMap& map, LabelType label_type) {
  std::string how = std::string(method_name(map)) + ", layer " + std::to_string(map.choice.layer);
  if (map.choice.head.kind != Head::Kind::mean) how += ", head " + to_text(map.choice.head);
  return {label_text(map.of_class, label_type) + " " + fixed(map.of_class.prob * 100, 1) + " %",
          std::move(how)};
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

std::string note_of(const InputMap& map) {
  std::string text;
  const auto add = [&](const std::string& clause) {
    if (!clause.empty()) text += (text.empty() ? "" : "; ") + clause;
  };
  add(map.note);
  add(describe_rules(map.rules));
  return text;
}

}  // namespace hydrascope::app
