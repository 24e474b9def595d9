// `evaluate --html`: the worst misclassified pictures, on a page.
#pragma once

#include "app/pictures/labelled_set.h"
#include "app/scores/scores.h"
#include "model/image/decode.h"
#include "model/image/labels.h"
#include "viz/charts/chart_page.h"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace hydrascope::app {

class ErrorGallery {
 public:
  explicit ErrorGallery(std::size_t most = 100) : most_(most) {}

  /// Keeps the wrong pictures whose wrong class has the highest probability; of equal
  /// ones the earlier.
  void add(const ScoredPicture& picture);
  /// Worst first.
  [[nodiscard]] const std::vector<ScoredPicture>& worst() const noexcept { return worst_; }

  using Notice = std::function<void(const std::string&)>;
  /// Draws over a shrunk picture, given as it was decoded too, what speaks for what it is and for what it
  /// was taken for: two pictures, or none.
  using Drawing = std::function<std::vector<viz::Canvas>(
      image::Picture& picture, const viz::Canvas& shrunk, const ScoredPicture& error)>;
  /// The `count` worst from the `first`, decoded once more, shrunk to 256 pixels, with what they are
  /// and what they were taken for. `notice` is told of one that cannot be. `drawing` may be empty.
  [[nodiscard]] std::vector<viz::GalleryPicture> pictures(
      std::size_t first, std::size_t count, const LabelledSet& set, const image::Labels& labels,
      const image::DecodeOptions& decode, const Notice& notice, const Drawing& drawing = {}) const;

 private:
  std::size_t most_;
  std::vector<ScoredPicture> worst_;
};

}  // namespace hydrascope::app
