// The pictures of a training run: files, their classes, and how they become a model's input.
#pragma once

#include "model/image/transform_plan.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hydrascope::model::training {

/// One picture of a training set.
struct TrainingPicture {
  std::filesystem::path file;
  std::int64_t target = -1;  ///< 0-based class, -1 where there are no labels
  std::int32_t source = 0;   ///< the user's input that it came from
};

/// Splits `pictures` into pictures to train on and held-out ones: about `share` of them, each with
/// that probability, drawn from its name, its folder's name and `seed`. So a picture is held out
/// whatever else the set holds and wherever it lies. At least one of two or more pictures comes to
/// either side, unless `share` is 0. Throws Error(invalid_argument) for a share outside [0, 1).
struct Split {
  std::vector<TrainingPicture> training;
  std::vector<TrainingPicture> held_out;
};
Split hold_out(std::vector<TrainingPicture> pictures, double share, std::uint64_t seed);

/// 16 hexadecimal digits for these pictures in this order: names with their folders, classes and
/// sources, so the same wherever the set lies.
std::string fingerprint(const std::vector<TrainingPicture>& pictures);

/// timm's RandAugment as its `aa=rand-m9-n2-mstd0.5-inc1` says (Cubuk et al. 2020, arXiv
/// 1909.13719).
struct RandAugmentOptions {
  double magnitude = 9;  ///< of 10
  int operations = 2;
  double magnitude_std = 0.5;
  bool increasing = false;   ///< "inc1": severity grows with the magnitude for every operation
  double probability = 0.5;  ///< of each operation
};
/// Throws Error(invalid_argument). "" and "none" are no augmentation: `operations` is 0.
RandAugmentOptions parse_rand_augment(const std::string& text);

/// The steps of augmenting a training picture, in this order: a crop, whose filter is drawn from
/// bilinear and bicubic, a flip, RandAugment, erasing with noise. Names and defaults come from
/// timm's train.py.
struct AugmentOptions {
  image::Size size{224, 224};
  std::array<double, 2> scale{0.08, 1.0};  ///< of the area, RandomResizedCrop
  std::array<double, 2> ratio{3.0 / 4, 4.0 / 3};
  double hflip = 0.5;
  RandAugmentOptions rand_augment{.operations = 0};
  double erase_probability = 0;  ///< timm's `reprob`
  std::array<double, 3> mean{0.485, 0.456, 0.406};
  std::array<double, 3> stddev{0.229, 0.224, 0.225};
};

}  // namespace hydrascope::model::training
