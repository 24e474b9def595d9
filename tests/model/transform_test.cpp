#include "model/transform.h"

#include "model/image/needed_pixels.h"
#include "tests/error_matchers.h"
#include "tests/model/image/sample_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace hydrascope::image {
namespace transform_test {

using testing::data_folder;
using testing::read_file;
using testing::read_ppm;

/// The formula of scripts/make/make_transform_goldens.py.
Picture picture(int height, int width) {
  Picture made{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const int value = x * (3 + 2 * c) + y * (7 - c) + (x * y / 8) * (c + 1) + 40 * c;
        made.rgb.push_back(static_cast<std::uint8_t>(value % 256));
      }
    }
  }
  return made;
}

std::uint8_t sample(const Picture& from, std::int64_t y, std::int64_t x, std::int64_t c) {
  return from.rgb.at(static_cast<std::size_t>((y * from.width + x) * 3 + c));
}

/// The value of a byte: float32 after every step.
float normalised(const TransformConfig& config, int value, std::size_t c) {
  const float unit = static_cast<float>(value) / 255.0F;
  return (unit - static_cast<float>(config.mean[c])) / static_cast<float>(config.std[c]);
}

/// Grey levels out of a tensor, to compare with bytes.
double level(const TransformConfig& config, float value, std::size_t c) {
  return (static_cast<double>(value) * config.std[c] + config.mean[c]) * 255;
}

float at_place(const at::Tensor& tensor, std::int64_t c, std::int64_t y, std::int64_t x) {
  return tensor.const_data_ptr<float>()[(c * tensor.size(1) + y) * tensor.size(2) + x];
}

TransformConfig native(Fit fit) {
  TransformConfig config;
  config.views = Views::native;
  config.fit = fit;
  return config;
}

/// The window of `output` that is `expected`, byte for byte, shifted by (top, left) in `from`.
void expect_window(const TransformConfig& config, const at::Tensor& output, const Picture& from,
                   std::int64_t top, std::int64_t left, Size window) {
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t y = 0; y < window.height; ++y) {
      for (std::int64_t x = 0; x < window.width; ++x) {
        ASSERT_EQ(at_place(output, c, y, x), normalised(config, sample(from, y + top, x + left, c),
                                                        static_cast<std::size_t>(c)))
            << c << ", " << y << ", " << x;
      }
    }
  }
}

struct Golden {
  std::string name;
  TransformConfig config;
  Size picture;
};

std::vector<Golden> goldens() {
  const auto json = nlohmann::json::parse(read_file(data_folder("transforms") / "cases.json"));
  const auto size = [](const nlohmann::json& pair) { return Size{pair.at(0), pair.at(1)}; };
  std::vector<Golden> all;
  for (const auto& entry : json.at("cases")) {
    Golden golden{entry.at("name"), {}, size(entry.at("picture"))};
    golden.config.img_size = size(entry.at("img_size"));
    golden.config.crop_pct = entry.at("crop_pct");
    golden.config.crop_mode = parse_crop_mode(entry.at("crop_mode").get<std::string>());
    golden.config.interpolation = parse_interpolation(entry.at("interpolation").get<std::string>());
    golden.config.mean = json.at("mean");
    golden.config.std = json.at("std");
    all.push_back(std::move(golden));
  }
  return all;
}

TEST(Transform, AgreesWithTimm) {
  for (const Golden& golden : goldens()) {
    SCOPED_TRACE(golden.name);
    const Picture expected = read_ppm(data_folder("transforms") / (golden.name + ".ppm"));
    const at::Tensor output = apply_transform(
        golden.config,
        picture(static_cast<int>(golden.picture.height), static_cast<int>(golden.picture.width)));
    ASSERT_TRUE(output.is_contiguous());
    ASSERT_EQ(output.scalar_type(), at::kFloat);
    ASSERT_EQ(output.size(0), 3);
    ASSERT_EQ(expected.height, golden.config.img_size.height);
    ASSERT_EQ(expected.width, golden.config.img_size.width);
    double largest = 0;
    double sum = 0;
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::int64_t y = 0; y < output.size(1); ++y) {
        for (std::int64_t x = 0; x < output.size(2); ++x) {
          const float value = at_place(output, c, y, x);
          if (y >= expected.height || x >= expected.width) {
            ASSERT_EQ(value, 0.0F) << "padding at " << y << ", " << x;
            continue;
          }
          const double difference = std::abs(
              level(golden.config, value, static_cast<std::size_t>(c)) - sample(expected, y, x, c));
          ASSERT_TRUE(std::isfinite(difference));
          largest = std::max(largest, difference);
          sum += difference;
        }
      }
    }
    const bool resampled = golden.config.interpolation != Interpolation::nearest &&
                           golden.name != "nothing_to_resample";
    EXPECT_LE(largest, resampled ? 2.001 : 0.001);
    EXPECT_LE(sum / static_cast<double>(expected.rgb.size()), resampled ? 0.1 : 0.001);
  }
}

TEST(Transform, ReadsTheNeededPixelsAlone) {
  std::mt19937 random(1);
  for (const Size& size : {Size{100, 300}, {300, 100}, {517, 389}, {64, 64}, {30, 900}}) {
    Picture picture{static_cast<int>(size.width), static_cast<int>(size.height), {}};
    for (std::int64_t i = 0; i < 3 * size.width * size.height; ++i)
      picture.rgb.push_back(static_cast<std::uint8_t>(random()));
    for (const CropMode mode : {CropMode::center, CropMode::squash, CropMode::border}) {
      for (const Interpolation way :
           {Interpolation::bicubic, Interpolation::bilinear, Interpolation::nearest}) {
        TransformConfig config;
        config.img_size = {64, 64};
        config.crop_mode = mode;
        config.interpolation = way;
        const TransformPlan plan = plan_transform(config, size);
        const PixelBox needed = needed_pixels(config, size, plan);
        Picture others = picture;
        for (std::int64_t y = 0; y < size.height; ++y)
          for (std::int64_t x = 0; x < size.width; ++x)
            if (y < needed.top || y >= needed.top + needed.height || x < needed.left ||
                x >= needed.left + needed.width)
              std::fill_n(others.rgb.begin() + 3 * (y * size.width + x), 3, std::uint8_t{0});
        EXPECT_TRUE(at::equal(transform_pixels(config, others, plan),
                              transform_pixels(config, picture, plan)));
      }
    }
  }
}

TEST(Transform, NormalisesInFloat32StepByStep) {
  TransformConfig config = native(Fit::pad);
  config.mean = {0.5, 0.1, 0.9};
  config.std = {0.5, 0.3, 0.7};
  Picture bytes{32, 16, {}};
  for (int i = 0; i < 32 * 16 * 3; ++i) bytes.rgb.push_back(static_cast<std::uint8_t>(i / 2));
  expect_window(config, apply_transform(config, bytes), bytes, 0, 0, {16, 32});
}

TEST(Transform, NativePadsWithTheMeanColourAtRightAndBottom) {
  const Picture from = picture(20, 37);
  const at::Tensor output = apply_transform(native(Fit::pad), from);
  ASSERT_EQ(output.sizes(), (at::IntArrayRef{3, 32, 48}));
  expect_window(native(Fit::pad), output, from, 0, 0, {20, 37});
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t y = 0; y < 32; ++y) {
      for (std::int64_t x = 0; x < 48; ++x) {
        if (y < 20 && x < 37) continue;
        ASSERT_EQ(at_place(output, c, y, x), 0.0F);
      }
    }
  }
}

// Rests of 3, 4 and 5 pixels: int(round(rest / 2)) of Python is 2, 2 and 2 (half to even).
TEST(Transform, NativeCropIsCentredHalfToEven) {
  for (const int rest : {3, 4, 5}) {
    const Picture from = picture(16 + rest, 32);
    const at::Tensor output = apply_transform(native(Fit::crop), from);
    ASSERT_EQ(output.sizes(), (at::IntArrayRef{3, 16, 32}));
    expect_window(native(Fit::crop), output, from, 2, 0, {16, 32});
  }
}

TEST(Transform, NativeResizeGivesTheNearestMultiple) {
  TransformConfig config = native(Fit::resize);
  config.interpolation = Interpolation::nearest;
  const Picture from = picture(24, 8);
  const at::Tensor output = apply_transform(config, from);
  ASSERT_EQ(output.sizes(), (at::IntArrayRef{3, 32, 16}));
  EXPECT_EQ(at_place(output, 1, 31, 15), normalised(config, sample(from, 23, 7, 1), 1));
}

TEST(Transform, NothingIsResizedWhenTheSizeIsRight) {
  TransformConfig config;
  config.img_size = {16, 16};
  config.crop_pct = 1.0;
  const Picture from = picture(16, 21);
  expect_window(config, apply_transform(config, from), from, 0, 2, {16, 16});
}

TEST(Transform, PlainColoursStayPlain) {
  for (const auto interpolation :
       {Interpolation::bicubic, Interpolation::bilinear, Interpolation::nearest}) {
    for (const int value : {0, 1, 127, 255}) {
      TransformConfig config;
      config.interpolation = interpolation;
      config.img_size = {32, 32};
      const Picture plain{
          101, 57, std::vector<std::uint8_t>(101 * 57 * 3, static_cast<std::uint8_t>(value))};
      const at::Tensor output = apply_transform(config, plain);
      for (std::int64_t c = 0; c < 3; ++c) {
        ASSERT_EQ(at_place(output, c, 0, 0),
                  normalised(config, value, static_cast<std::size_t>(c)));
        ASSERT_EQ(at_place(output, c, 31, 31),
                  normalised(config, value, static_cast<std::size_t>(c)));
      }
    }
  }
}

TEST(Transform, OnePixelIsAPictureOfOneColour) {
  TransformConfig config;
  for (const Interpolation interpolation :
       {Interpolation::bicubic, Interpolation::bilinear, Interpolation::nearest}) {
    config.interpolation = interpolation;
    const at::Tensor output = apply_transform(config, picture(1, 1));
    ASSERT_EQ(output.sizes(), (at::IntArrayRef{3, 224, 224}));
    for (std::int64_t c = 0; c < 3; ++c) {
      const float expected =
          normalised(config, static_cast<std::uint8_t>(40 * c), static_cast<std::size_t>(c));
      EXPECT_TRUE(output[c].eq(expected).all().item<bool>()) << name(interpolation) << c;
    }
  }
}

TEST(Transform, ErrorsOfThePlan) {
  EXPECT_ERROR(apply_transform({}, Picture{}), empty, "0x0 pixels");
}

TEST(Renormalise, GivesWhatTheOtherTransformWouldHave) {
  const TransformConfig from;
  TransformConfig to;
  to.mean = {0.5, 0.4, 0.3};
  to.std = {0.5, 0.25, 1};
  constexpr int kValue = 100;
  const auto image_of = [&](const TransformConfig& config) {
    at::Tensor image = at::empty({1, 3, 2, 2});
    for (std::size_t c = 0; c < 3; ++c)
      image[0][static_cast<std::int64_t>(c)].fill_(normalised(config, kValue, c));
    return image;
  };
  EXPECT_TRUE(at::allclose(renormalise(image_of(from), from, to), image_of(to), 1e-5, 1e-6));
  const at::Tensor same = image_of(from);
  EXPECT_TRUE(renormalise(same, from, from).is_same(same));
}

}  // namespace transform_test
}  // namespace hydrascope::image
