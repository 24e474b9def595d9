// Named groups of a model's classes: hypernyms in WordNet, from assets/labels/imagenet1k_groups.txt.
#pragma once

#include "model/image/labels.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hydrascope::app {

struct Group {
  std::string id;                     ///< WordNet synset, "n01503061"
  std::string name;                   ///< "bird"
  std::vector<std::int64_t> classes;  ///< ascending
};

struct GroupAnswer {
  std::string name;
  double probability = 0;  ///< of all its classes together
};

class ClassGroups {
 public:
  /// The groups that hold at least 2 of the labels' classes and not all of them, by WordNet ids; of groups with the
  /// same classes the nearest. None for labels without ids. Throws Error(unreadable).
  explicit ClassGroups(const image::Labels& labels);

  [[nodiscard]] std::span<const Group> groups() const noexcept { return groups_; }
  /// The groups of a class, as indices of `groups()`: the nearest first, each a part of the next.
  [[nodiscard]] std::span<const std::size_t> chain(std::int64_t index) const {
    return chains_.at(static_cast<std::size_t>(index));
  }
  /// Whether the class is a landscape or a room, which has no place in a picture.
  [[nodiscard]] bool is_scene(std::int64_t index) const {
    return is_scene_.at(static_cast<std::size_t>(index));
  }
  /// The nearest group of class `first` whose probability is at least `least`, and at least 0.05 above the class's.
  /// `probabilities`: (num_classes). Nothing where their number is not that of the labels.
  [[nodiscard]] std::optional<GroupAnswer> answer(std::span<const double> probabilities,
                                                  std::int64_t first, double least) const;

 private:
  std::vector<Group> groups_;
  std::vector<std::vector<std::size_t>> chains_;  ///< by class
  std::vector<bool> is_scene_;                    ///< by class
};

}  // namespace hydrascope::app
