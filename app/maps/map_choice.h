// `--method`, `--layer` and `--head`: which maps are made of a class.
#pragma once

#include "model/config/config.h"
#include "model/image/labels.h"
#include "model/registry/map_methods.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

// `--class` and `--topk`: which classes maps are made for.

class ClassChoice {
 public:
  /// Each word names a class (`ClassWords`), `pred` those that an input is taken for: the `topk` best. No
  /// word is `pred`; with `topk` given and no `pred` among the words, it stands in front of them.
  ClassChoice(std::span<const std::string> words, std::optional<std::int64_t> topk,
              const image::Labels& labels);

  /// How many of an input's best classes `resolve` wants to know.
  [[nodiscard]] std::int64_t num_best() const noexcept { return num_best_; }
  /// How many classes `resolve` gives at most.
  [[nodiscard]] std::int64_t most_classes() const noexcept;
  /// Whether the predicted class alone is asked for, as without any word.
  [[nodiscard]] bool is_default() const noexcept { return most_classes() == 1 && !slots_.front(); }
  /// For an input whose best classes are `best`. Without `keep_repeated` a class that is named and
  /// predicted comes once; with it their number is the same for every input.
  [[nodiscard]] std::vector<std::int64_t> resolve(std::span<const std::int64_t> best,
                                                  bool keep_repeated) const;

 private:
  std::vector<std::optional<std::int64_t>> slots_;  ///< nothing: the best classes
  std::int64_t num_best_ = 1;
};

/// The treatment of a method's maps by head.
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

/// `--method`, `--layer`, `--head`, `--set mapless`: the words of the command line; no word is the default.
struct MapWords {
  std::vector<std::string> methods;  ///< names
  std::vector<std::string> layers;   ///< numbers from 0, "last", "all"
  std::vector<std::string> heads;    ///< numbers from 0, "mean", "max", "all"
  bool of_class = false;             ///< classes are asked for
  model::explain::MaplessLayers mapless = model::explain::MaplessLayers::skip;  ///< of rollouts
  bool remembers = false;  ///< layers remember earlier frames
};

/// The words that `--method` takes.
std::vector<std::string> method_words();

struct MapSelection {
  std::vector<MapChoice> maps;  ///< by method, layer, head
  /// Layers of `all` that a method cannot explain, methods that know no classes: a line each.
  std::vector<std::string> notes;
};

/// Throws Error(invalid_argument) for an unknown method (with the nearest name), a layer or head
/// that the model lacks, a method that cannot explain a layer that is named or has no maps by head:
/// why not, and which methods can. The same with a memory, where fewer can.
MapSelection choose_maps(const model::VitConfig& config, const MapWords& words);
/// Method by method: one that the model does not have is no reason to show none, and is noted. Throws
/// the first refusal where it has none of them.
MapSelection maps_at_hand(const model::VitConfig& config, const MapWords& words);

}  // namespace hydrascope::app
