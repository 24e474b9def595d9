// A choice for every layer, as text and as values: the mechanisms and the position rules of a model
// are chosen by the same grammar (layer_grammar.h).
#pragma once

#include "kernels/error.h"
#include "model/registry/layer_grammar.h"
#include "model/registry/mechanisms.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model {

/// The names of one kind of choices. `Spec` has a member with the entry's name, and `options`.
template <class Spec, class Entry>
struct LayerChoices {
  Catalogue<Entry>& entries;
  std::string Spec::*name;
  LayerField field;            ///< the field of the choice: "`rel_pos`"
  std::string options_field;   ///< the field of its options: "`rel_pos_options`"
  std::string options_form;    ///< the form of an option's text
  std::string options_layers;  ///< a hint on the layers of an option
  std::string verb;            ///< "has": joins a layer and its choice
  std::string_view none;       ///< the choice without options; empty: there is none

  /// The canonical name of a word, or an error of the field `subject`.
  [[nodiscard]] std::string canonical(std::string_view word, const std::string& subject) const {
    return !none.empty() && word == none ? std::string(none) : entries.find(word, subject).name;
  }
  /// The options of `spec` with the defaults filled in. Throws what `check_option` throws.
  [[nodiscard]] MechanismOptions options(const Spec& spec) const {
    return {entries.find(spec.*name, field.subject), spec.options, options_field};
  }

  /// A layer that already has the choice keeps the options that its checkpoint was trained with.
  void apply(std::string_view spec, std::vector<Spec>& layers) const {
    const auto name_of = [&](std::string_view word) { return canonical(word, field.subject); };
    for (const LayerPart& part : parse_layers(spec, std::ssize(layers), field, name_of)) {
      for (const std::int64_t layer : part.layers) {
        Spec& current = layers[static_cast<std::size_t>(layer)];
        if (current.*name == part.name) continue;
        current = {};
        current.*name = part.name;
      }
    }
  }

  /// `name[:layers].key=value`. Throws Error(invalid_argument) if none of the layers has the
  /// choice.
  void apply_option(std::string_view option, std::vector<Spec>& layers) const {
    const LayerField of_options{options_field, field.noun, options_layers};
    const LayerSetting setting = parse_layer_setting(option, options_form, of_options);
    const std::string chosen = canonical(setting.name, options_field);
    check_option(entries.find(chosen, options_field), setting.key, setting.value, options_field);
    bool used = false;
    for (const std::int64_t layer :
         select_layers(setting.layers, std::ssize(layers), option, of_options)) {
      Spec& current = layers[static_cast<std::size_t>(layer)];
      if (current.*name != chosen) continue;
      current.options[setting.key] = setting.value;
      used = true;
    }
    if (!used)
      throw Error(ErrorCode::invalid_argument,
                  (setting.layers
                       ? "none of the layers '" + std::string(*setting.layers) + "' " + verb + " "
                       : "no layer " + verb + " ") +
                      chosen,
                  options_field, "choose it with " + field.subject);
  }

  /// {"hydra.scale": "linear"}; differing values of layers are joined by '|'.
  [[nodiscard]] std::map<std::string, std::string> values(const std::vector<Spec>& layers) const {
    std::map<std::string, std::set<std::string>> found;
    for (const Spec& layer : layers) {
      if (layer.*name == none) continue;
      const MechanismOptions of_layer = options(layer);
      for (const auto& [key, value] : of_layer.all()) found[layer.*name + "." + key].insert(value);
    }
    std::map<std::string, std::string> result;
    for (const auto& [key, distinct] : found) {
      std::string& text = result[key];
      for (const std::string& value : distinct) text += (text.empty() ? "" : "|") + value;
    }
    return result;
  }

  /// "softmax:0-9,hydra:10-11", or the one name of all layers.
  [[nodiscard]] std::string text(const std::vector<Spec>& layers) const {
    std::string text;
    for (std::size_t begin = 0, end = 0; begin < layers.size(); begin = end) {
      const std::string& one = layers[begin].*name;
      for (end = begin; end < layers.size() && layers[end].*name == one;) ++end;
      if (end - begin == layers.size()) return one;
      text += (text.empty() ? "" : ",") + one + ":" + std::to_string(begin);
      if (end - begin > 1) text += "-" + std::to_string(end - 1);
    }
    return layers.empty() ? Spec{}.*name : text;
  }
};

}  // namespace hydrascope::model
