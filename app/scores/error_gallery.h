// `evaluate --html`: the worst misclassified pictures, on a page.
#pragma once

#include "app/pictures/labelled_set.h"
#include "app/scores/scores.h"
#include "model/image/decode.h"
#include "model/image/labels.h"
#include "viz/charts/chart_page.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace hydrascope::app {

class ErrorGallery {
 public:
  explicit ErrorGallery(std::size_t most = 24) : most_(most) {}

  /// Keeps the wrong pictures whose wrong class has the highest probability; of equal
  /// ones the earlier.
  void add(const ScoredPicture& picture);
  /// Worst first.
  [[nodiscard]] const std::vector<ScoredPicture>& worst() const noexcept { return worst_; }

  using Notice = std::function<void(const std::string&)>;
  /// The worst, decoded once more, shrunk to 256 pixels, with what they are and what they were taken
  /// for. `notice` is told of one that cannot be.
  [[nodiscard]] std::vector<viz::GalleryPicture> pictures(const LabelledSet& set,
                                                          const image::Labels& labels,
                                                          const image::DecodeOptions& decode,
                                                          const Notice& notice) const;

 private:
  std::size_t most_;
  std::vector<ScoredPicture> worst_;
};

}  // namespace hydrascope::app
