#include "model/image/transform_plan.h"

#include "tests/cases.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace hydrascope::image {

void PrintTo(const Size& size, std::ostream* out) { *out << size.height << "x" << size.width; }
void to_json(nlohmann::json& json, const Size& size) { json = {size.height, size.width}; }
void from_json(const nlohmann::json& json, Size& size) { size = {json.at(0), json.at(1)}; }

namespace transform_plan_test {

using testing::Json;

/// timm's default transform with the fields of `row`.
TransformConfig config_of(const Json& row) {
  TransformConfig config;
  config.img_size = row.value("img_size", config.img_size);
  config.crop_pct = row.value("crop_pct", config.crop_pct);
  config.mean = row.value("mean", config.mean);
  config.std = row.value("std", config.std);
  config.patch_size = row.value("patch_size", config.patch_size);
  config.views = parse_views(row.value("views", "whole"));
  config.crop_mode = parse_crop_mode(row.value("crop_mode", "center"));
  config.interpolation = parse_interpolation(row.value("interpolation", "bicubic"));
  const std::string fit = row.value("fit", "pad");
  config.fit = fit == "corner" ? Fit::corner : parse_fit(fit);
  return config;
}

TEST(TransformPlan, EveryPictureHasItsSteps) {
  for (const Json& row : testing::read_cases("model/image/transform_plans.jsonl")) {
    testing::expect_case(row, [&] {
      const TransformConfig config = config_of(row.at("config"));
      const Size picture = row.at("picture");
      const TransformPlan plan =
          plan_transform(config, picture, row.value("max_pixels", std::int64_t{1} << 29));
      const Json facts{{"resized", plan.resized},
                       {"cropped", plan.cropped},
                       {"output", plan.output},
                       {"window", {plan.window_top, plan.window_left}},
                       {"fit", describe_fit(config, plan)}};
      for (const auto& [fact, value] : facts.items())
        EXPECT_EQ(row.value(fact, value), value) << fact;
    });
  }
}

TEST(TransformWords, EveryTransformIsDescribed) {
  for (const Json& row : testing::read_cases("model/image/transform_words.jsonl")) {
    const std::string words = describe(config_of(row.at("config")));
    EXPECT_TRUE(words.starts_with(row.at("says").get<std::string>())) << words;
  }
  EXPECT_TRUE(describe({}).ends_with("std (0.229, 0.224, 0.225)"));
  for (const char* word : {"whole", "native", "zoom"}) EXPECT_EQ(name(parse_views(word)), word);
  EXPECT_ERROR(parse_views("tiles"), invalid_argument, "'tiles'", "whole, native, zoom");
}

// What Pillow 13 does, found by comparing its result with both orders.
TEST(TransformPlan, OrderOfThePasses) {
  EXPECT_FALSE(resamples_columns_first({299, 299}, {256, 256}));
  EXPECT_FALSE(resamples_columns_first({195, 126}, {177, 117}));
  EXPECT_TRUE(resamples_columns_first({195, 126}, {176, 117}));
  EXPECT_TRUE(resamples_columns_first({300, 137}, {252, 115}));
  EXPECT_FALSE(resamples_columns_first({94, 75}, {98, 210}));
}

TEST(TransformWords, NamesAreParsedBack) {
  for (const auto value :
       {Interpolation::bicubic, Interpolation::bilinear, Interpolation::nearest}) {
    EXPECT_EQ(parse_interpolation(name(value)), value);
  }
  for (const auto value : {CropMode::center, CropMode::squash, CropMode::border})
    EXPECT_EQ(parse_crop_mode(name(value)), value);
  for (const auto value : {Fit::pad, Fit::crop, Fit::resize})
    EXPECT_EQ(parse_fit(name(value)), value);
  EXPECT_ERROR(parse_interpolation("lanczos"), invalid_argument, "'lanczos'",
               "bicubic, bilinear, nearest");
  EXPECT_ERROR(parse_crop_mode(""), invalid_argument, "center, squash, border, center_floor");
  EXPECT_ERROR(parse_fit("Pad"), invalid_argument, "pad, crop, resize");
}

}  // namespace transform_plan_test
}  // namespace hydrascope::image
