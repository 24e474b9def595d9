// Top-1 and top-5 of a labelled set, by one label and by several.
#pragma once

#include "app/scores/scored_picture.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

namespace hydrascope::app {

/// 100 count / all; NaN of nothing.
inline double percent_of(std::int64_t count, std::int64_t all) {
  return all == 0 ? std::numeric_limits<double>::quiet_NaN()
                  : 100.0 * static_cast<double>(count) / static_cast<double>(all);
}

class Accuracy {
 public:
  void add(const ScoredPicture& picture) {
    if (!picture.is_labelled()) return;
    ++images_;
    if (picture.rank == 1) ++top1_;
    if (picture.rank <= kTopClasses) ++top5_;
  }
  [[nodiscard]] std::int64_t images() const noexcept { return images_; }
  [[nodiscard]] double top1() const { return percent_of(top1_, images_); }
  [[nodiscard]] double top5() const { return percent_of(top5_, images_); }

 private:
  std::int64_t images_ = 0;
  std::int64_t top1_ = 0;
  std::int64_t top5_ = 0;
};

/// Top-1 over labels of which several may be valid (Beyer et al. 2020, Are we done with ImageNet?,
/// arXiv 2006.07159): right where the predicted class is one of them. A picture without a valid
/// label counts nowhere.
class RealAccuracy {
 public:
  void add(const ScoredPicture& picture, std::span<const std::int64_t> valid) {
    if (valid.empty()) return;
    ++images_;
    if (std::ranges::find(valid, picture.predicted) != valid.end()) ++right_;
  }
  [[nodiscard]] std::int64_t images() const noexcept { return images_; }
  [[nodiscard]] double top1() const { return percent_of(right_, images_); }

 private:
  std::int64_t images_ = 0;
  std::int64_t right_ = 0;
};

}  // namespace hydrascope::app
