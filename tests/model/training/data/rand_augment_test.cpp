#include "model/training/data/rand_augment.h"

#include "tests/model/image/sample_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace hydrascope::model::training {
namespace {

constexpr std::array<std::uint8_t, 3> kFill{124, 116, 104};
const std::array<double, 3> kMean{0.485, 0.456, 0.406};  // the same colour

const std::map<std::string, Operation> kNames{{"auto_contrast", Operation::auto_contrast},
                                              {"equalize", Operation::equalize},
                                              {"invert", Operation::invert},
                                              {"rotate", Operation::rotate},
                                              {"posterize", Operation::posterize},
                                              {"solarize", Operation::solarize},
                                              {"solarize_add", Operation::solarize_add},
                                              {"color", Operation::color},
                                              {"contrast", Operation::contrast},
                                              {"brightness", Operation::brightness},
                                              {"sharpness", Operation::sharpness},
                                              {"shear_x", Operation::shear_x},
                                              {"shear_y", Operation::shear_y},
                                              {"translate_x", Operation::translate_x},
                                              {"translate_y", Operation::translate_y}};

/// The formula of scripts/make/make_transform_goldens.py.
image::Picture picture(int height = 21, int width = 16) {
  image::Picture made{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const int ramp = x * (11 + 2 * c) + y * (7 - c) * 2 + (x * y / 3) * (c + 1) + 40 * c;
        made.rgb.push_back(static_cast<std::uint8_t>(20 + ramp % 200));
      }
    }
  }
  return made;
}

std::vector<std::uint8_t> bytes_of_hex(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

TEST(Operation, AgreesWithTimmBitForBit) {
  const auto json = nlohmann::json::parse(
      testing::read_file(testing::data_folder("augmentations") / "cases.json"));
  ASSERT_EQ(json.at("fill"), kFill);
  std::set<Operation> seen;
  for (const auto& entry : json.at("cases")) {
    const std::string name = entry.at("operation");
    const std::string interpolation = entry.at("interpolation");
    const double argument = entry.at("argument");
    SCOPED_TRACE(name + " " + std::to_string(argument) + " " + interpolation + " of " +
                 entry.at("height").dump() + "x" + entry.at("width").dump());
    image::Picture changed = picture(entry.at("height"), entry.at("width"));
    apply_operation(kNames.at(name), argument, image::parse_interpolation(interpolation), kFill,
                    changed);
    const std::vector<std::uint8_t> expected = bytes_of_hex(entry.at("rgb"));
    ASSERT_EQ(changed.rgb.size(), expected.size());
    const auto [found, wanted] =
        std::mismatch(changed.rgb.begin(), changed.rgb.end(), expected.begin());
    EXPECT_TRUE(found == changed.rgb.end()) << "byte " << found - changed.rgb.begin() << " is "
                                            << int{*found} << ", not " << int{*wanted};
    seen.insert(kNames.at(name));
  }
  EXPECT_EQ(seen.size(), kNumOperations);
}

TEST(Operation, LeavesAPlainPicturePlain) {
  for (const auto& [name, operation] : kNames) {
    for (const auto interpolation :
         {image::Interpolation::bilinear, image::Interpolation::bicubic}) {
      image::Picture plain{5, 4, {}};
      for (int i = 0; i < 20; ++i) plain.rgb.insert(plain.rgb.end(), kFill.begin(), kFill.end());
      apply_operation(operation, operation_argument(operation, 9, true, false), interpolation,
                      kFill, plain);
      for (std::size_t i = 3; i < plain.rgb.size(); ++i)
        ASSERT_EQ(plain.rgb[i], plain.rgb[i - 3]) << name;
    }
  }
}

constexpr bool kIncreasing = true;
constexpr bool kNegative = true;

TEST(OperationArgument, IsTimms) {
  const auto argument = [](Operation operation, double magnitude, bool increasing = kIncreasing,
                           bool negative = false) {
    return operation_argument(operation, magnitude, increasing, negative);
  };
  EXPECT_DOUBLE_EQ(argument(Operation::rotate, 9), 27);
  EXPECT_DOUBLE_EQ(argument(Operation::rotate, 9, kIncreasing, kNegative), -27);
  EXPECT_DOUBLE_EQ(argument(Operation::shear_x, 5), 0.15);
  EXPECT_DOUBLE_EQ(argument(Operation::shear_y, 5, kIncreasing, kNegative), -0.15);
  EXPECT_DOUBLE_EQ(argument(Operation::translate_x, 10), 0.45);
  EXPECT_DOUBLE_EQ(argument(Operation::translate_y, 8, kIncreasing, kNegative), -0.36);
  // int(0.9 * 4) is 3 bits of 4, int(0.9 * 256) is 230, int(0.9 * 110) is 99.
  EXPECT_EQ(argument(Operation::posterize, 9), 1);
  EXPECT_EQ(argument(Operation::posterize, 9, !kIncreasing), 3);
  EXPECT_EQ(argument(Operation::posterize, 10), 1);
  EXPECT_EQ(argument(Operation::posterize, 0), 4);
  EXPECT_EQ(argument(Operation::solarize, 9), 26);
  EXPECT_EQ(argument(Operation::solarize, 9, !kIncreasing), 230);
  EXPECT_EQ(argument(Operation::solarize, 0), 256);
  EXPECT_EQ(argument(Operation::solarize_add, 9), 99);
  for (const Operation enhance :
       {Operation::color, Operation::contrast, Operation::brightness, Operation::sharpness}) {
    EXPECT_DOUBLE_EQ(argument(enhance, 9), 1.81);
    EXPECT_DOUBLE_EQ(argument(enhance, 9, kIncreasing, kNegative), 0.19);
    EXPECT_DOUBLE_EQ(argument(enhance, 10, kIncreasing, kNegative), 0.1);
    EXPECT_DOUBLE_EQ(argument(enhance, 9, !kIncreasing), 1.72);
  }
}

int changes(const RandAugmentOptions& options) {
  int changed = 0;
  for (std::uint64_t key = 0; key < 300; ++key) {
    image::Picture one = picture();
    RandomStream stream{key};
    rand_augment(options, kMean, one, stream);
    changed += one.rgb == picture().rgb ? 0 : 1;
  }
  return changed;
}

TEST(RandAugment, AppliesOperationsByTheirProbability) {
  // In the set that does not increase, solarize begins above the lightest value here.
  RandAugmentOptions options{.operations = 1, .increasing = true};
  options.probability = 1;
  EXPECT_EQ(changes(options), 300);
  options.probability = 0.5;
  EXPECT_NEAR(changes(options), 150, 40);
  options.operations = 2;
  EXPECT_NEAR(changes(options), 225, 35);
  options.probability = 0;
  EXPECT_EQ(changes(options), 0);
  options = {.operations = 0, .probability = 1};
  EXPECT_EQ(changes(options), 0);
}

/// The pictures that can come of this one.
std::set<std::vector<std::uint8_t>> outcomes(const RandAugmentOptions& options) {
  std::set<std::vector<std::uint8_t>> all;
  for (std::uint64_t key = 0; key < 400; ++key) {
    image::Picture one = picture();
    RandomStream stream{key};
    rand_augment(options, kMean, one, stream);
    all.insert(one.rgb);
  }
  return all;
}

// Without spread 9 operations of the increasing set come in two directions; of those the five that
// move pixels come with two interpolations. 5 x 2 x 2 + 4 x 2 + 6 are 34 pictures.
TEST(RandAugment, DrawsEveryOperationDirectionAndInterpolation) {
  RandAugmentOptions options{.operations = 1, .magnitude_std = 0, .increasing = true};
  options.probability = 1;
  EXPECT_EQ(outcomes(options).size(), 34);
}

TEST(RandAugment, SpreadsTheMagnitude) {
  RandAugmentOptions options{.operations = 1, .magnitude_std = 0.5, .increasing = true};
  options.probability = 1;
  EXPECT_GT(outcomes(options).size(), 120);
  options.magnitude_std = std::numeric_limits<double>::infinity();
  EXPECT_GT(outcomes(options).size(), 150);
}

TEST(RandAugment, FillsWithTheMean) {
  RandAugmentOptions options{.magnitude = 10, .operations = 1, .magnitude_std = 0};
  options.probability = 1;
  int filled = 0;
  for (std::uint64_t key = 0; key < 300; ++key) {
    image::Picture one = picture();
    RandomStream stream{key};
    rand_augment(options, kMean, one, stream);
    const auto corner_is_fill = [&](std::size_t at) {
      return std::equal(kFill.begin(), kFill.end(), one.rgb.begin() + at);
    };
    filled += corner_is_fill(0) || corner_is_fill(one.rgb.size() - 3) ? 1 : 0;
  }
  EXPECT_NEAR(filled, 300 * 5 / 15, 40);
}

}  // namespace
}  // namespace hydrascope::model::training
