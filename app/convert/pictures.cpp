#include "app/convert/pictures.h"

#include "app/train/training_options.h"
#include "kernels/error.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <utility>

namespace hydrascope::app {

using model::training::TrainingPicture;

ConversionPictures conversion_pictures(const std::vector<std::string>& words, double held_out,
                                       std::uint64_t seed) {
  if (words.empty()) {
    throw Error(ErrorCode::invalid_argument, "expected pictures to learn from", "convert",
                "-i FOLDER; labels are not needed");
  }
  std::vector<std::vector<TrainingPicture>> sources;
  std::set<std::filesystem::path> known;
  std::size_t all = 0;
  for (const std::string& word : words) {
    sources.push_back(pictures_of(word, static_cast<std::int32_t>(sources.size()), known));
    all += sources.back().size();
  }
  const double count = held_out < 1 ? held_out * static_cast<double>(all) : held_out;
  const double of_each = count / static_cast<double>(sources.size());
  ConversionPictures result;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    constexpr double kMostShare = 0.25;
    const double share = std::min(kMostShare, of_each / static_cast<double>(sources[i].size()));
    model::training::Split split = model::training::hold_out(std::move(sources[i]), share, seed);
    result.sources.push_back(words[i] + " (" + std::to_string(split.training.size()) + " + " +
                             std::to_string(split.held_out.size()) + ")");
    std::ranges::move(split.training, std::back_inserter(result.training));
    std::ranges::move(split.held_out, std::back_inserter(result.held_out));
  }
  if (result.training.empty() || result.held_out.empty()) {
    throw Error(
        ErrorCode::empty,
        "expected pictures to learn from and others to judge by, found " + std::to_string(all),
        "convert");
  }
  return result;
}

}  // namespace hydrascope::app
