// `evaluate --save-errors`: the worst misclassified pictures on contact sheets.
#pragma once

#include "app/pictures/labelled_set.h"
#include "app/scores/scores.h"
#include "model/image/decode.h"
#include "model/image/labels.h"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace hydrascope::app {

class ErrorGallery {
 public:
  /// Makes the folder. Throws Error(unwritable) where it cannot be made.
  ErrorGallery(std::filesystem::path folder, std::size_t most);

  /// Keeps the wrong pictures whose wrong class has the highest probability; of equal
  /// ones the earlier.
  void add(const ScoredPicture& picture);
  /// Worst first.
  [[nodiscard]] const std::vector<ScoredPicture>& worst() const noexcept { return worst_; }

  /// errors.csv, and sheet-001.jpg, ... of 20 pictures each, which are decoded once more. `notice`
  /// is told of one that cannot be. Throws Error(unreadable, failed) if writing fails.
  void write(const LabelledSet& set, const image::Labels& labels,
             const image::DecodeOptions& decode,
             const std::function<void(const std::string&)>& notice) const;

 private:
  void write_table(const LabelledSet& set, const image::Labels& labels) const;

  std::filesystem::path folder_;
  std::size_t most_;
  std::vector<ScoredPicture> worst_;
};

}  // namespace hydrascope::app
