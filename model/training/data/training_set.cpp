#include "model/training/data/training_set.h"

#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/training/data/random_stream.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string_view>
#include <utility>

namespace hydrascope::model::training {
namespace {

constexpr std::string_view kRandAugmentHint =
    "RandAugment is written rand-m9-n2-mstd0.5-inc1: magnitude, operations, spread of the "
    "magnitude, growing severity; p0.5 is the probability of each operation";

/// Folder and name: the same wherever the set lies, and different in the folders of two classes.
std::string name_in_folder(const std::filesystem::path& file) {
  const std::filesystem::path whole = std::filesystem::absolute(file).lexically_normal();
  return (whole.parent_path().filename() / whole.filename()).generic_string();
}

/// FNV-1a.
std::uint64_t hash(std::string_view text, std::uint64_t value = 0xCBF29CE484222325) {
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return value;
}

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, "'" + text + "' " + why, "`aa`",
              std::string(kRandAugmentHint));
}

double parse_value(const std::string& text, const std::string& section, const std::string& digits,
                   double lowest, double highest) {
  const std::optional value = parse_number<double>(digits);
  if (!value || !(*value >= lowest) || !(*value <= highest))
    refuse(text, "has a part without sense: " + section);
  return *value;
}

int parse_count(const std::string& text, const std::string& section, const std::string& digits,
                int highest) {
  const double value = parse_value(text, section, digits, 0, highest);
  if (value != std::floor(value)) refuse(text, "needs an integer in " + section);
  return static_cast<int>(value);
}

}  // namespace

Split hold_out(std::vector<TrainingPicture> pictures, double share, std::uint64_t seed) {
  if (!(share >= 0 && share < 1)) {
    throw Error(ErrorCode::invalid_argument,
                "a share of " + std::to_string(share) +
                    " cannot be held out: expected at least 0 and less than 1");
  }
  Split split;
  if (share == 0 || pictures.size() < 2) {
    split.training = std::move(pictures);
    return split;
  }
  std::vector<double> draws;
  draws.reserve(pictures.size());
  for (const TrainingPicture& picture : pictures)
    draws.push_back(RandomStream({seed, hash(name_in_folder(picture.file))}).uniform());
  // Chance may leave one side of a small set empty.
  const auto [first, last] = std::minmax_element(draws.begin(), draws.end());
  *first = -1.0;
  *last = 1.0;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    auto& side = draws[i] < share ? split.held_out : split.training;
    side.push_back(std::move(pictures[i]));
  }
  return split;
}

std::string fingerprint(const std::vector<TrainingPicture>& pictures) {
  std::uint64_t value = hash("");
  for (const TrainingPicture& picture : pictures) {
    value = hash(name_in_folder(picture.file) + '\n' + std::to_string(picture.target) + '\n' +
                     std::to_string(picture.source) + '\n',
                 value);
  }
  constexpr int kDigits = 16;
  std::string digits(kDigits, '0');
  for (int i = kDigits - 1; i >= 0; --i, value /= kDigits)
    digits[static_cast<std::size_t>(i)] = "0123456789abcdef"[value % kDigits];
  return digits;
}

RandAugmentOptions parse_rand_augment(const std::string& text) {
  if (text.empty() || text == "none") return {.operations = 0};
  std::istringstream sections(text);
  std::string section;
  std::getline(sections, section, '-');
  if (section != "rand") refuse(text, "is no RandAugment, the only policy there is");
  RandAugmentOptions options{.magnitude = 10, .magnitude_std = 0};  // timm's values for the rest
  while (std::getline(sections, section, '-')) {
    const std::size_t name_end = std::min(section.size(), section.find_first_of("0123456789."));
    const std::string name = section.substr(0, name_end);
    const std::string digits = section.substr(name_end);
    if (name == "m") {
      options.magnitude = parse_value(text, section, digits, 0, 10);
    } else if (name == "n") {
      options.operations = parse_count(text, section, digits, 100);
    } else if (name == "mstd") {
      constexpr double kUniformAbove = 100;  // as in timm: uniform between 0 and the magnitude
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      const double deviation = parse_value(text, section, digits, 0, kInfinity);
      options.magnitude_std = deviation > kUniformAbove ? kInfinity : deviation;
    } else if (name == "inc") {
      options.increasing = parse_count(text, section, digits, 1) == 1;
    } else if (name == "p") {
      options.probability = parse_value(text, section, digits, 0, 1);
    } else {
      refuse(text, "has an unknown part: " + section);
    }
  }
  return options;
}

}  // namespace hydrascope::model::training
