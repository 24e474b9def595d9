// `--method`, `--layer` and `--head`: which maps are made of a class.
#pragma once

#include "model/config/config.h"
#include "model/registry/map_methods.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::app {

/// What becomes of a method's maps by head.
struct Head {
  enum class Kind {
    mean,     ///< the method's own map: attention's mean over heads, hydra's sum (the exact map)
    maximum,  ///< of the heads' maps, cell by cell
    one
  };
  Kind kind = Kind::mean;
  std::int64_t index = 0;  ///< of `one`
  friend bool operator==(const Head&, const Head&) = default;
};
/// "mean", "max", "3".
std::string to_text(const Head& head);

struct MapChoice {
  model::explain::Method method = model::explain::Method::attention;
  std::int64_t layer = 0;
  Head head;
  friend bool operator==(const MapChoice&, const MapChoice&) = default;
};

/// The words of the command line; no word is the default.
struct MapWords {
  std::vector<std::string> methods;  ///< names
  std::vector<std::string> layers;   ///< numbers from 0, "last", "all"
  std::vector<std::string> heads;    ///< numbers from 0, "mean", "max", "all"
  bool of_class = false;             ///< classes are asked for
  model::explain::MaplessLayers mapless = model::explain::MaplessLayers::skip;  ///< of rollouts
};

/// What `--method` takes.
std::vector<std::string> method_words();

struct MapSelection {
  std::vector<MapChoice> maps;  ///< by method, layer, head
  /// Layers of `all` that a method cannot explain, methods that know no classes: a line each.
  std::vector<std::string> notes;
};

/// Throws Error(invalid_argument) for an unknown method (with the nearest name), a layer or head
/// that the model lacks, a method that cannot explain a layer that is named or has no maps by head:
/// why not, and which methods can.
MapSelection choose_maps(const model::VitConfig& config, const MapWords& words);

}  // namespace hydrascope::app
