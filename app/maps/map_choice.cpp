#include "app/maps/map_choice.h"

#include "app/options/option_table.h"
#include "app/options/options.h"
#include "app/pictures/class_words.h"
#include "app/run/console.h"
#include "app/run/usage_error.h"
#include "kernels/error.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

namespace hydrascope::app {

namespace {

constexpr std::string_view kPredicted = "pred";

template <class Value>
void add_once(std::vector<Value>& values, const Value& value) {
  if (std::ranges::find(values, value) == values.end()) values.push_back(value);
}

}  // namespace

ClassChoice::ClassChoice(std::span<const std::string> words, std::optional<std::int64_t> topk,
                         const image::Labels& labels) {
  const ClassWords named(labels);
  bool has_predicted = false;
  for (const std::string& word : words) {
    if (word != kPredicted) {
      slots_.emplace_back(named.find(word, "`class` " + word));
    } else if (!has_predicted) {
      slots_.emplace_back(std::nullopt);
      has_predicted = true;
    }
  }
  if (!has_predicted && (words.empty() || topk)) slots_.insert(slots_.begin(), std::nullopt);
  num_best_ = std::min(topk.value_or(1), static_cast<std::int64_t>(labels.size()));
}

std::int64_t ClassChoice::most_classes() const noexcept {
  std::int64_t count = 0;
  for (const auto& slot : slots_) count += slot ? 1 : num_best_;
  return count;
}

std::vector<std::int64_t> ClassChoice::resolve(std::span<const std::int64_t> best,
                                               bool keep_repeated) const {
  std::vector<std::int64_t> classes;
  for (const auto& slot : slots_) {
    const std::span<const std::int64_t> wanted = slot ? std::span(&*slot, 1) : best;
    for (const std::int64_t index : wanted)
      keep_repeated ? classes.push_back(index) : add_once(classes, index);
  }
  return classes;
}

namespace {

using model::VitConfig;
using model::explain::Method;

Method parse_method(const std::string& word) {
  if (const auto* entry = model::explain::find_method_or_null(word)) return entry->method;
  const std::vector<std::string> names = method_words();
  const std::string near = nearest(word, names);
  throw UsageError(
      "unknown method", "`method` " + word,
      near.empty() ? "one of " + join_words(names, ", ", ", ") : "did you mean " + near + "?");
}

/// A number below `count`; `counted`, "layer", is the field and names the things.
std::int64_t parse_place(const std::string& word, const std::string& counted, std::int64_t count,
                         const char* others) {
  const std::string option = option_named(counted);
  const std::int64_t place = to_integer(word, option);
  if (place < 0 || place >= count) {
    throw UsageError("the model has " + counted + "s 0 to " + std::to_string(count - 1),
                     option + " " + word, others);
  }
  return place;
}

std::vector<std::int64_t> parse_layers(const std::vector<std::string>& words,
                                       const VitConfig& config) {
  std::vector<std::int64_t> layers;
  for (const std::string& word : words) {
    if (word == "all") {
      for (std::int64_t layer = 0; layer < config.depth; ++layer) add_once(layers, layer);
    } else if (word == "last") {
      add_once(layers, config.depth - 1);
    } else {
      add_once(layers, parse_place(word, "layer", config.depth, "a number, last or all"));
    }
  }
  if (words.empty()) layers.push_back(config.depth - 1);
  return layers;
}

std::vector<Head> parse_heads(const std::vector<std::string>& words, const VitConfig& config) {
  std::vector<Head> heads;
  for (const std::string& word : words) {
    if (word == "mean") {
      add_once(heads, {Head::Kind::mean});
    } else if (word == "max") {
      add_once(heads, {Head::Kind::maximum});
    } else if (word == "all") {
      for (std::int64_t head = 0; head < config.num_heads; ++head)
        add_once(heads, {Head::Kind::one, head});
    } else {
      add_once(heads, {Head::Kind::one,
                       parse_place(word, "head", config.num_heads, "a number, mean, max or all")});
    }
  }
  if (words.empty()) heads.push_back({Head::Kind::mean});
  return heads;
}

}  // namespace

std::string to_text(const Head& head) {
  switch (head.kind) {
    case Head::Kind::mean: return "mean";
    case Head::Kind::maximum: return "max";
    case Head::Kind::one: return std::to_string(head.index);
  }
  return "";
}

std::vector<std::string> method_words() {
  std::vector<std::string> words;
  for (const model::explain::MethodEntry& entry : model::explain::methods())
    words.emplace_back(entry.name);
  return words;
}

MapSelection choose_maps(const VitConfig& config, const MapWords& words) {
  const std::vector<std::int64_t> layers = parse_layers(words.layers, config);
  // Then they are taken as they are able to, none is named.
  const bool are_all = std::ranges::find(words.layers, "all") != words.layers.end();
  const std::vector<Head> heads = parse_heads(words.heads, config);
  if (words.remembers && std::ranges::find(heads, Head{Head::Kind::maximum}) != heads.end())
    throw UsageError(
        "earlier frames have no share of the heads' maximum, which has cells of several",
        "`memory` with `head` max", "`head` mean, all or a number");
  const auto why_not = [&](Method method, std::int64_t layer) {
    std::string why = model::explain::why_not(config, method, layer, words.mapless);
    if (why.empty() && words.remembers)
      why = model::explain::why_not_remembering(config, method, layer);
    return why;
  };
  const auto require = [&](Method method, std::int64_t layer) {
    const std::string where = "`method` " + std::string(model::explain::entry_of(method).name) +
                              ", layer " + std::to_string(layer);
    model::explain::require_supported(config, method, layer, words.mapless, where);
    if (words.remembers)
      model::explain::require_remembering(config, method, layer, "`memory` with " + where);
  };
  MapSelection selection;
  const auto add = [&](Method method, std::int64_t layer) {
    for (const Head& head : heads) {
      if (head.kind != Head::Kind::mean && !model::explain::entry_of(method).by_head) {
        throw UsageError(std::string(model::explain::entry_of(method).name) +
                             " has one map for all heads, none by head",
                         "`head` " + to_text(head), "hydra and attention have maps by head");
      }
      add_once(selection.maps, {method, layer, head});
    }
  };

  std::vector<std::string> methods = words.methods;
  if (methods.empty()) methods.emplace_back(model::explain::entry_of(Method::hydra).name);
  for (const std::string& word : methods) {
    const Method method = parse_method(word);
    std::vector<std::int64_t> skipped;
    for (const std::int64_t layer : layers) {
      if (why_not(method, layer).empty()) {
        add(method, layer);
      } else if (are_all) {
        skipped.push_back(layer);
      } else {
        require(method, layer);
      }
    }
    if (words.of_class && !model::explain::entry_of(method).of_class)
      selection.notes.push_back(word + " is the same for every class: one map");
    if (skipped.size() == layers.size()) require(method, skipped.back());
    if (!skipped.empty())
      selection.notes.push_back("layers " + model::explain::layer_ranges(skipped) +
                                " left out: " + why_not(method, skipped.front()));
  }
  return selection;
}

MapSelection maps_at_hand(const model::VitConfig& config, const MapWords& words) {
  std::vector<std::string> methods = words.methods;
  if (methods.empty()) methods.emplace_back("hydra");
  MapSelection all;
  std::optional<Error> refusal;
  for (const std::string& method : methods) {
    MapWords one = words;
    one.methods = {method};
    try {
      MapSelection selection = choose_maps(config, one);
      std::ranges::move(selection.maps, std::back_inserter(all.maps));
      std::ranges::move(selection.notes, std::back_inserter(all.notes));
    } catch (const Error& error) {
      all.notes.push_back(method + " left out: " + error.what());
      if (!refusal) refusal = error;
    }
  }
  if (all.maps.empty()) throw Error(*refusal);
  return all;
}

}  // namespace hydrascope::app
