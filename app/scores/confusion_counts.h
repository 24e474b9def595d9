// Which classes are taken for which.
#pragma once

#include "app/results/table.h"
#include "app/scores/scored_picture.h"
#include "model/image/labels.h"

#include <cstdint>
#include <map>

namespace hydrascope::app {

class ConfusionCounts {
 public:
  /// Pictures without a label are left out.
  void add(const ScoredPicture& picture);

  /// One row per class that has pictures, by its index: class, id, label, images, right, top1, top5
  /// and the wrong class that it is most often taken for (the lower of two as frequent).
  [[nodiscard]] ResultTable classes(const image::Labels& labels) const;
  /// The `count` most frequent wrong pairs, most frequent first (then by class): target, predicted,
  /// count, and the share of the target's pictures.
  [[nodiscard]] ResultTable pairs(std::size_t count, const image::Labels& labels) const;

 private:
  struct Class {
    std::int64_t images = 0;
    std::int64_t right = 0;
    std::int64_t in_top5 = 0;
    std::map<std::int64_t, std::int64_t> taken_for;  ///< wrong class -> pictures
  };
  std::map<std::int64_t, Class> classes_;
};

}  // namespace hydrascope::app
