#include "app/scores/error_gallery.h"

#include "app/results/report.h"
#include "kernels/error.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace hydrascope::app {
namespace {

std::string with_percent(const std::string& label, double probability) {
  return label + "  " + fixed(100 * probability, 1) + " %";
}

}  // namespace

void ErrorGallery::add(const ScoredPicture& picture) {
  if (!picture.is_labelled() || picture.is_right()) return;
  const auto place = std::ranges::upper_bound(worst_, picture.confidence, std::ranges::greater(),
                                              &ScoredPicture::confidence);
  worst_.insert(place, picture);
  if (worst_.size() > most_) worst_.pop_back();
}

std::vector<viz::GalleryPicture> ErrorGallery::pictures(const LabelledSet& set,
                                                        const image::Labels& labels,
                                                        const image::DecodeOptions& decode,
                                                        const Notice& notice) const {
  std::vector<viz::GalleryPicture> found;
  for (const ScoredPicture& error : worst_) {
    const std::filesystem::path& file = set.pictures[error.index].file;
    try {
      image::Picture picture = image::read_picture(file, decode);
      // Many large photographs would not fit into memory.
      found.push_back(
          {file.string(),
           thumbnail({picture.width, picture.height, std::move(picture.rgb)}),
           {"is " + with_percent(labels.at(error.target).short_name, error.target_probability),
            "taken for " + with_percent(labels.at(error.predicted).short_name, error.confidence)}});
    } catch (const Error& refusal) {
      notice("note: error not shown: " + file.string() + ": " + refusal.what());
    }
  }
  return found;
}

}  // namespace hydrascope::app
