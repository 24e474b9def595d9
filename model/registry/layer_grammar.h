// The grammar of choices by layer, `softmax:0-9,hydra:last2`, `rope:0-5`, and of their settings,
// `rope:0-5.base=10`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::model {

/// The words of errors about a field whose text is wrong.
struct LayerField {
  std::string subject;   ///< "`attention`"
  std::string noun;      ///< "a mechanism's name"
  std::string examples;  ///< a hint
};

/// The layers, of `depth`, that a selector ("3", "0-9", "last4", "first2", "every2") names: counted
/// from 0, `everyK` from the last layer; no selector names all. Errors quote `part`. Throws
/// Error(invalid_argument).
std::vector<std::int64_t> select_layers(std::optional<std::string_view> selector,
                                        std::int64_t depth, std::string_view part,
                                        const LayerField& field);

/// One part of a list, "hydra:last2".
struct LayerPart {
  std::string name;  ///< canonical
  std::vector<std::int64_t> layers;
};

/// The parts of `spec` in their order; the later of two that name a layer wins. `canonical` gives a
/// word's name in the registry or throws. Throws Error(invalid_argument) also for a part that loses
/// all of its layers to later parts.
std::vector<LayerPart> parse_layers(std::string_view spec, std::int64_t depth,
                                    const LayerField& field,
                                    const std::function<std::string(std::string_view)>& canonical);

/// `name[:layers].key=value`, cut up.
struct LayerSetting {
  std::string_view name;
  std::optional<std::string_view> layers;  ///< absent: all
  std::string key;
  std::string value;
};
/// Errors expect `form`; a value may hold any of the marks. Throws Error(invalid_argument).
LayerSetting parse_layer_setting(std::string_view setting, const std::string& form,
                                 const LayerField& field);

}  // namespace hydrascope::model
