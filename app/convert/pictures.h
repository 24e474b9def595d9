// What a conversion learns from and what it is judged by: the pictures that the user named.
#pragma once

#include "app/options/options.h"
#include "model/training/data/training_set.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::app {

struct ConversionPictures {
  std::vector<model::training::TrainingPicture> training;
  std::vector<model::training::TrainingPicture> held_out;
  std::vector<std::string> sources;  ///< words of the command line, "photos/ (4000 + 120)"
};

/// Each word is a source: a folder with all its folders, a quoted glob, a list, a file. Equally
/// many pictures of each are held out. Throws Error(invalid_argument) for a word that names
/// nothing, Error(empty) where nothing is left to learn from.
ConversionPictures conversion_pictures(const std::vector<std::string>& words, double held_out,
                                       std::uint64_t seed);

}  // namespace hydrascope::app
