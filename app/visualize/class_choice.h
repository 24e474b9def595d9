// `--class` and `--topk`: which classes maps are made for.
#pragma once

#include "model/image/labels.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrascope::app {

/// The class that an index, a synset id or a name means. Throws Error(invalid_argument) with the
/// nearest names for a word that is none, and with the indices for a name that several classes
/// have.
std::int64_t find_class(std::string_view word, const image::Labels& labels);

class ClassChoice {
 public:
  /// Each word names a class, `pred` those that an input is taken for: the `topk` best. No
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

}  // namespace hydrascope::app
