#include "app/scores/error_gallery.h"

#include "app/results/json.h"
#include "app/results/report.h"
#include "app/results/table.h"
#include "app/run/output_file.h"
#include "kernels/error.h"
#include "viz/picture/encode.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace hydrascope::app {
namespace {

constexpr std::size_t kOnSheet = 20;

std::string sheet_name(std::size_t place) {
  const std::string number = std::to_string(place / kOnSheet + 1);
  constexpr std::size_t kDigits = 3;
  return "sheet-" + std::string(kDigits - std::min(number.size(), kDigits), '0') + number + ".jpg";
}

std::string with_percent(const std::string& label, double probability) {
  return label + "  " + fixed(100 * probability, 1) + " %";
}

}  // namespace

ErrorGallery::ErrorGallery(std::filesystem::path folder, std::size_t most)
    : folder_(std::move(folder)), most_(most) {
  if (folder_.empty()) return;
  std::error_code status;
  std::filesystem::create_directories(folder_, status);
  if (status)
    throw Error(ErrorCode::unwritable, "the folder cannot be created: " + status.message(),
                folder_.string());
  const auto check = [&](const std::string& name, FileKind kind) {
    refuse_to_replace(folder_ / name, kind, "`save_errors` " + (folder_ / name).string());
  };
  check("errors.csv", FileKind::text);
  for (std::size_t place = 0; place < most_; place += kOnSheet)
    check(sheet_name(place), FileKind::picture);
}

void ErrorGallery::add(const ScoredPicture& picture) {
  if (!picture.is_labelled() || picture.is_right()) return;
  const auto place = std::ranges::upper_bound(worst_, picture.confidence, std::ranges::greater(),
                                              &ScoredPicture::confidence);
  worst_.insert(place, picture);
  if (worst_.size() > most_) worst_.pop_back();
}

void ErrorGallery::write_table(const LabelledSet& set, const image::Labels& labels) const {
  ResultTable table({{"file", "file"},
                     {"target", "class"},
                     {"target_label", "label"},
                     {"target_probability", "probability"},
                     {"predicted", "taken for"},
                     {"predicted_label", "label"},
                     {"probability", "probability"},
                     {"sheet", "sheet"}});
  for (std::size_t i = 0; i < worst_.size(); ++i) {
    const ScoredPicture& error = worst_[i];
    table.add({set.pictures[error.index].file.string(), error.target,
               labels.at(error.target).short_name, error.target_probability, error.predicted,
               labels.at(error.predicted).short_name, error.confidence, sheet_name(i)});
  }
  OutputFile file((folder_ / "errors.csv").string(), "`save_errors`");
  table.write(Format::csv, file.stream());
  file.close();
}

std::vector<viz::GalleryPicture> ErrorGallery::pictures(
    std::size_t first, std::size_t count, const LabelledSet& set, const image::Labels& labels,
    const image::DecodeOptions& decode, const Notice& notice, const Drawing& drawing) const {
  std::vector<viz::GalleryPicture> found;
  for (std::size_t i = first; i < std::min(first + count, worst_.size()); ++i) {
    const ScoredPicture& error = worst_[i];
    const std::filesystem::path& file = set.pictures[error.index].file;
    try {
      image::Picture picture = image::read_picture(file, decode);
      // Many large photographs would not fit into memory.
      viz::Canvas shrunk = thumbnail({picture.width, picture.height, picture.rgb});
      std::vector<viz::Canvas> beside;
      if (drawing) beside = drawing(picture, shrunk, error);
      found.push_back(
          {file.string(),
           std::move(shrunk),
           {"is " + with_percent(labels.at(error.target).short_name, error.target_probability),
            "taken for " + with_percent(labels.at(error.predicted).short_name, error.confidence)},
           std::move(beside)});
    } catch (const Error& refusal) {
      notice("note: error not shown: " + file.string() + ": " + refusal.what());
    }
  }
  return found;
}

void ErrorGallery::write(const LabelledSet& set, const image::Labels& labels,
                         const image::DecodeOptions& decode, const Notice& notice) const {
  write_table(set, labels);
  std::error_code ignored;  // an earlier run's, which the new table knows nothing of
  for (std::size_t place = 0; place < most_; place += kOnSheet)
    std::filesystem::remove(folder_ / sheet_name(place), ignored);
  if (worst_.empty()) return;
  constexpr int kColumns = 5;
  for (std::size_t first = 0; first < worst_.size(); first += kOnSheet) {
    const Gallery errors{"", pictures(first, kOnSheet, set, labels, decode, notice)};
    if (errors.pictures.empty()) continue;
    viz::write_image(folder_ / sheet_name(first), contact_sheet({&errors, 1}, kColumns));
  }
}

}  // namespace hydrascope::app
