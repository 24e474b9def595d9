// A map of an input, as a method gives it, and as it is shown.
#pragma once

#include "app/maps/map_choice.h"
#include "app/maps/map_record.h"
#include "app/results/classify_record.h"
#include "app/results/json.h"
#include "viz/heat/heat_map.h"
#include "viz/heat/placement.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

struct InputMap {
  MapChoice choice;
  Prediction of_class;  ///< also of methods whose map is the same for all classes
  viz::HeatMap map;     ///< raw
  bool is_signed = false;
  double own_share = 0;  ///< the class token's
  /// `model::explain::memory_share`, where the model remembers frames.
  std::optional<double> memory_share = {};
  double total = 0;          ///< heat of all tokens, the class token's and earlier frames' too
  bool is_additive = false;  ///< `total` is what the layer adds to the class's logit
  std::string note;          ///< of the method; may be empty
  std::vector<std::string> rules;  ///< of rollouts, one rule per layer, from 0
  viz::Placement placement = {};   ///< on the picture
};

/// "otter 67.5 %".
std::string caption(const Prediction& prediction, LabelType label_type);
/// The text of the caption: "otter 67.5 %", then "hydra, layer 11, head max".
std::vector<std::string> caption(const InputMap& map, LabelType label_type);
/// The quantity of the map: "weight".
std::string quantity(const InputMap& map);
/// The record of a map of an input whose maps have `facts` in common, or which has `record`.
MapRecord record_of(const MapRecord& facts, const InputMap& map);
MapRecord record_of(const ClassifyRecord& record, const InputMap& map);
/// The answer of a model about a picture, with maps: schema 2 of `POST /v1/explain`, which pages hold too. The
/// picture's record, and `maps`: each map's record, where its cells lie, and base64 of its values, float32 (rows,
/// columns), little endian. A failed picture's is its record alone.
OrderedJson explained_json(const ClassifyRecord& record, std::span<const InputMap> maps);

}  // namespace hydrascope::app
