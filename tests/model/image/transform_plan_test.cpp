#include "model/image/transform_plan.h"

#include "tests/cases.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TransformConfig tiled(Size tile) { return config_of({{"img_size", tile}, {"views", "tiles"}}); }

TEST(TransformPlan, EveryPictureHasItsSteps) {
  for (const Json& row : testing::read_cases("model/image/transform_plans.jsonl")) {
    testing::expect_case(row, [&] {
      const TransformConfig config = config_of(row.at("config"));
      const Size picture = row.at("picture");
      const std::vector<TransformPlan> views =
          config.views.are_several || row.contains("views")
              ? plan_views(config, picture)
              : std::vector{plan_transform(config, picture,
                                           row.value("max_pixels", std::int64_t{1} << 29))};
      const TransformPlan& plan = views.front();
      Json sizes = Json::array();
      for (const TransformPlan& view : views) {
        if (sizes.empty() || sizes.back()[0] != Json(view.resized))
          sizes.push_back({view.resized, 0});
        sizes.back()[1] = sizes.back()[1].get<int>() + 1;
      }
      const Json facts{{"resized", plan.resized},
                       {"cropped", plan.cropped},
                       {"output", plan.output},
                       {"window", {plan.window_top, plan.window_left}},
                       {"fit", describe_fit(config, plan)},
                       {"views", views.size()},
                       {"sizes", sizes},
                       {"num_sizes", sizes.size()}};
      for (const auto& [fact, value] : facts.items())
        EXPECT_EQ(row.value(fact, value), value) << fact;
    });
  }
  EXPECT_EQ(plan_views(config_of({{"views", "pyramid"}}), {1080, 1920}).front().window_left,
            plan_transform({}, {1080, 1920}).window_left);
}

TEST(TransformWords, EveryTransformIsDescribed) {
  for (const Json& row : testing::read_cases("model/image/transform_words.jsonl")) {
    const std::string words = describe(config_of(row.at("config")));
    EXPECT_TRUE(words.starts_with(row.at("says").get<std::string>())) << words;
  }
  EXPECT_TRUE(describe({}).ends_with("std (0.229, 0.224, 0.225)"));
  for (const char* word : {"whole", "native", "tiles", "pyramid", "look"})
    EXPECT_EQ(name(parse_views(word)), word);
}

TEST(PlanViews, TilesLieInsideAndLeaveNoPixelOut) {
  for (const Size tile : {Size{224, 224}, Size{64, 96}}) {
    for (const Size picture :
         {Size{224, 224}, Size{225, 224}, Size{392, 393}, Size{393, 900}, Size{1080, 1920},
          Size{231, 1001}, Size{100, 1000}, Size{1000, 100}, Size{1, 1}, Size{7, 300}}) {
      const std::vector<TransformPlan> views = plan_views(tiled(tile), picture);
      const Size resized = views.front().resized;
      const bool holds_one = picture.height >= tile.height && picture.width >= tile.width;
      if (holds_one)
        EXPECT_EQ(resized, picture) << "tiles need no resampling";
      else
        EXPECT_TRUE(resized.height == tile.height || resized.width == tile.width)
            << "enlarged no more than it takes";
      std::vector<int> seen(static_cast<std::size_t>(resized.height * resized.width));
      for (const TransformPlan& view : views) {
        EXPECT_EQ(view.resized, resized);
        EXPECT_EQ(view.cropped, tile);
        EXPECT_EQ(view.output, tile);
        ASSERT_GE(view.window_top, 0);
        ASSERT_GE(view.window_left, 0);
        ASSERT_LE(view.window_top + tile.height, resized.height);
        ASSERT_LE(view.window_left + tile.width, resized.width);
        for (std::int64_t y = view.window_top; y < view.window_top + tile.height; ++y) {
          const auto row = seen.begin() + y * resized.width + view.window_left;
          std::for_each(row, row + tile.width, [](int& count) { ++count; });
        }
      }
      EXPECT_GT(std::ranges::min(seen), 0)
          << picture.height << "x" << picture.width << " in " << tile.height << "x" << tile.width;
    }
  }
}

TEST(PlanViews, TilesOverlapByAQuarterAndTheLastIsShiftedInwards) {
  std::vector<std::int64_t> lefts;
  for (const TransformPlan& view : plan_views(tiled({224, 224}), {224, 700}))
    lefts.push_back(view.window_left);
  EXPECT_EQ(lefts, (std::vector<std::int64_t>{0, 168, 336, 476}));
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
