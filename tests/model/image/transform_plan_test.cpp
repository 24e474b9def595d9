#include "model/image/transform_plan.h"

#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace hydrascope::image {

void PrintTo(const Size& size, std::ostream* out) { *out << size.height << "x" << size.width; }

namespace transform_plan_test {

TransformConfig config_of(Size img_size, double crop_pct, CropMode mode) {
  TransformConfig config;
  config.img_size = img_size;
  config.crop_pct = crop_pct;
  config.crop_mode = mode;
  return config;
}

TransformConfig native(Fit fit) {
  TransformConfig config;
  config.views = Views::native;
  config.fit = fit;
  return config;
}

// Sizes that torchvision and timm give for these pictures.
TEST(TransformPlan, ShorterEdgeIsTruncatedTheOtherRounded) {
  const TransformConfig square = config_of({224, 224}, 0.875, CropMode::center);
  EXPECT_EQ(plan_transform(square, {299, 299}).resized, (Size{256, 256}));
  EXPECT_EQ(plan_transform(square, {375, 500}).resized, (Size{256, 341}));
  EXPECT_EQ(plan_transform(square, {500, 375}).resized, (Size{341, 256}));
  EXPECT_EQ(plan_transform(config_of({224, 224}, 0.9, CropMode::center), {300, 401}).resized,
            (Size{248, 331}));
  const TransformConfig wide = config_of({224, 320}, 0.9, CropMode::center);
  EXPECT_EQ(plan_transform(wide, {375, 500}).resized, (Size{266, 355}));
  EXPECT_EQ(plan_transform(wide, {300, 1000}).resized, (Size{248, 827}));
}

TEST(TransformPlan, SquashAndBorder) {
  const TransformConfig squash = config_of({224, 160}, 0.9, CropMode::squash);
  EXPECT_EQ(plan_transform(squash, {1000, 30}).resized, (Size{248, 177}));
  EXPECT_EQ(plan_transform(squash, {1000, 30}).cropped, (Size{224, 160}));
  const TransformConfig border = config_of({224, 224}, 1.0, CropMode::border);
  EXPECT_EQ(plan_transform(border, {300, 600}).resized, (Size{112, 224}));
  EXPECT_EQ(plan_transform(border, {1, 30000}).resized, (Size{1, 224}));
}

TEST(TransformPlan, FitOfAModelSize) {
  TransformConfig config = config_of({230, 250}, 1.0, CropMode::center);
  config.fit = Fit::pad;
  EXPECT_EQ(plan_transform(config, {500, 500}).cropped, (Size{230, 250}));
  EXPECT_EQ(plan_transform(config, {500, 500}).output, (Size{240, 256}));
  config.fit = Fit::crop;
  EXPECT_EQ(plan_transform(config, {500, 500}).cropped, (Size{224, 240}));
  EXPECT_EQ(plan_transform(config, {500, 500}).output, (Size{224, 240}));
  config.fit = Fit::resize;
  EXPECT_EQ(plan_transform(config, {500, 500}).resized, (Size{256, 256}));
  EXPECT_EQ(plan_transform(config, {500, 500}).output, (Size{224, 256}));
}

TEST(TransformPlan, ACornerKeepsTheWindowsTopLeft) {
  // 384 pixels are 27.4 patches of 14: timm's convolution leaves 6 out at the right and bottom.
  TransformConfig config = config_of({384, 384}, 1.0, CropMode::center);
  config.patch_size = 14;
  config.fit = Fit::corner;
  const TransformPlan plan = plan_transform(config, {500, 700});
  EXPECT_EQ(plan.resized, (Size{384, 537}));
  EXPECT_EQ(plan.window_top, 0);
  // (537 - 384) / 2 rounded half to even, as of the whole 384.
  EXPECT_EQ(plan.window_left, 76);
  EXPECT_EQ(plan.cropped, (Size{378, 378}));
  EXPECT_EQ(plan.output, (Size{378, 378}));
  EXPECT_EQ(describe_fit(config, plan),
            "cut at the right and bottom from 384x384 to 378x378 (HxW)");
}

TEST(TransformPlan, FitOfANativePicture) {
  EXPECT_EQ(plan_transform(native(Fit::pad), {1080, 1920}).resized, (Size{1080, 1920}));
  EXPECT_EQ(plan_transform(native(Fit::pad), {1080, 1920}).output, (Size{1088, 1920}));
  EXPECT_EQ(plan_transform(native(Fit::crop), {1080, 1920}).output, (Size{1072, 1920}));
  EXPECT_EQ(plan_transform(native(Fit::resize), {1080, 1927}).output, (Size{1088, 1920}));
  EXPECT_EQ(plan_transform(native(Fit::resize), {1079, 1928}).output, (Size{1072, 1936}));
}

TEST(TransformPlan, NothingIsSmallerThanAPatch) {
  for (const Fit fit : {Fit::pad, Fit::crop, Fit::resize}) {
    EXPECT_EQ(plan_transform(native(fit), {3, 20}).output.height, 16) << name(fit);
  }
  EXPECT_EQ(plan_transform(native(Fit::crop), {3, 20}).cropped, (Size{16, 16}));
}

TEST(TransformPlan, TakesEveryPictureThatHasAPixel) {
  const TransformPlan pixel = plan_transform({}, {1, 1});
  EXPECT_EQ(pixel.resized, (Size{256, 256}));
  EXPECT_EQ(pixel.output, (Size{224, 224}));
  EXPECT_ERROR(plan_transform({}, {0, 5}), empty, "0x5 pixels (HxW)");
  EXPECT_NO_THROW(plan_transform({}, {1, 2}));
  EXPECT_NO_THROW(plan_transform({}, {2, 2}));
}

// Only the crop is computed, so that its picture may be of any size.
TEST(TransformPlan, TakesExtremeAspectRatios) {
  for (const Size picture : {Size{1, 30000}, Size{30000, 1}, Size{100, 30000}, Size{1, 1 << 29}})
    EXPECT_EQ(plan_transform({}, picture).cropped, (Size{224, 224}));
  EXPECT_EQ(plan_transform({}, {1, 30000}).resized, (Size{256, 7680000}));
  EXPECT_EQ(plan_transform({}, {1, 30000}).window_left, 7680000 / 2 - 112);
}

TEST(TransformPlan, RefusesWhatTakesTooMuchMemory) {
  // Neither end of the squash is large, but what lies between its two passes is.
  const TransformConfig squash = config_of({224, 1024}, 1.0, CropMode::squash);
  EXPECT_ERROR(plan_transform(squash, {40000000, 2}), too_large, "40000000x2");
  EXPECT_NO_THROW(plan_transform(squash, {1000000, 2}));
  EXPECT_ERROR(plan_transform(native(Fit::pad), {2000, 1000}, 1999999), too_large, "2000x1008");
}

TEST(TransformPlan, RefusesConfigurationsWithoutSense) {
  EXPECT_ERROR(plan_transform(config_of({0, 224}, 1.0, CropMode::center), {9, 9}), invalid_argument,
               "0x224");
  EXPECT_ERROR(plan_transform(config_of({224, 224}, 0.0, CropMode::center), {9, 9}),
               invalid_argument, "crop_pct 0");
  EXPECT_ERROR(plan_transform(config_of({224, 224}, 1.5, CropMode::center), {9, 9}),
               invalid_argument, "1.5");
  TransformConfig config;
  config.std[1] = 0;
  EXPECT_ERROR(plan_transform(config, {9, 9}), invalid_argument, "std (0.229, 0, 0.225)");
  config = {};
  config.patch_size = 0;
  EXPECT_ERROR(plan_transform(config, {9, 9}), invalid_argument, "patch size 0");
}

// What Pillow 13 does, found by comparing its result with both orders.
TEST(TransformPlan, OrderOfThePasses) {
  EXPECT_FALSE(resamples_columns_first({299, 299}, {256, 256}));
  EXPECT_FALSE(resamples_columns_first({195, 126}, {177, 117}));
  EXPECT_TRUE(resamples_columns_first({195, 126}, {176, 117}));
  EXPECT_TRUE(resamples_columns_first({300, 137}, {252, 115}));
  EXPECT_FALSE(resamples_columns_first({94, 75}, {98, 210}));
}

TEST(TransformWords, Describe) {
  TransformConfig config;
  EXPECT_EQ(describe(config),
            "resize 256 (bicubic, antialias) -> centre crop 224x224 -> mean (0.485, 0.456, 0.406) "
            "std (0.229, 0.224, 0.225)");
  config.img_size = {230, 320};
  config.interpolation = Interpolation::nearest;
  config.mean = config.std = {0.5, 0.5, 0.5};
  EXPECT_EQ(describe(config),
            "resize to cover 262x365 (nearest) -> centre crop 230x320 -> pad to multiples of 16 -> "
            "mean (0.5, 0.5, 0.5) std (0.5, 0.5, 0.5)");
  config.crop_mode = CropMode::squash;
  config.fit = Fit::resize;
  EXPECT_TRUE(
      describe(config).starts_with("squash to 256x365 (nearest) -> centre crop 224x320 -> mean"))
      << describe(config);
  EXPECT_TRUE(
      describe(native(Fit::crop)).starts_with("native size -> crop to multiples of 16 -> mean"));
  EXPECT_TRUE(
      describe(native(Fit::resize))
          .starts_with("native size resized to multiples of 16 (bicubic, antialias) -> mean"));
}

TransformConfig look_at_1088() {
  TransformConfig config;
  config.img_size = {1088, 1088};
  config.views = Views::look;
  return config;
}

TEST(TransformPlan, ALookBeginsWithTheWholePictureAtABoundedSize) {
  const auto resized_and_output = [](Size picture) {
    const TransformPlan plan = plan_transform(look_at_1088(), picture);
    return std::pair(plan.resized, plan.output);
  };
  // Reduced, enlarged and upright; nearly that size; a panorama: 2.2 x 1088 x 1088 pixels.
  EXPECT_EQ(resized_and_output({2160, 3840}), std::pair(Size{1088, 1936}, Size{1088, 1936}));
  EXPECT_EQ(resized_and_output({480, 640}), std::pair(Size{1088, 1456}, Size{1088, 1456}));
  EXPECT_EQ(resized_and_output({640, 480}), std::pair(Size{1456, 1088}, Size{1456, 1088}));
  EXPECT_EQ(resized_and_output({1080, 1920}), std::pair(Size{1080, 1920}, Size{1088, 1920}));
  EXPECT_EQ(resized_and_output({1000, 10000}), std::pair(Size{512, 5072}, Size{512, 5072}));
  EXPECT_EQ(resized_and_output({2, 30000}), std::pair(Size{16, 162752}, Size{16, 162752}));
  EXPECT_EQ(resized_and_output({1, 1}), std::pair(Size{1088, 1088}, Size{1088, 1088}));
}

TEST(TransformWords, DescribeViews) {
  EXPECT_TRUE(
      describe(look_at_1088())
          .starts_with("shorter edge 1088 (bicubic, antialias), then a closer look at parts "
                       "of the picture; small pictures whole -> pad to multiples of 16 -> mean"))
      << describe(look_at_1088());
  EXPECT_EQ(name(TransformConfig().views), "whole");
  EXPECT_EQ(name(parse_views("native")), "native");
  EXPECT_EQ(name(Views::look), "look");
  EXPECT_ERROR(parse_views("tiles"), invalid_argument, "'tiles'", "whole, native, look");
}

TEST(TransformWords, DescribeFit) {
  const auto text = [](Fit fit, Size picture) {
    return describe_fit(native(fit), plan_transform(native(fit), picture));
  };
  EXPECT_EQ(text(Fit::pad, {1080, 1920}), "padded 1080x1920 to 1088x1920 (HxW)");
  EXPECT_EQ(text(Fit::crop, {1080, 1920}), "cropped 1080x1920 to 1072x1920 (HxW)");
  EXPECT_EQ(text(Fit::resize, {1080, 1920}), "resized 1080x1920 to 1088x1920 (HxW)");
  EXPECT_EQ(text(Fit::pad, {1072, 1920}), "");
  EXPECT_EQ(describe_fit({}, plan_transform({}, {1080, 1920})), "");
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
