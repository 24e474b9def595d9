#include "model/checkpoint/hub/transform_hints.h"

#include "model/checkpoint/formats/json_fields.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

namespace hydrascope::checkpoint {
namespace {

using image::CropMode;
using image::Interpolation;
using image::Size;

TransformHints preprocessor(const std::string& json, Processor processor = Processor::vit) {
  const nlohmann::json object = parse_json_object(json, "preprocessor_config.json");
  return read_preprocessor(JsonFields(object, "preprocessor_config.json"), "file",
                           {processor, {224, 224}, "defaults"});
}

/// Which size the picture is resized to and which window is taken, for a picture of 400x300.
std::pair<Size, Size> plan_of(const TransformHints& hints) {
  const image::TransformPlan plan = image::plan_transform(hints.values, {300, 400});
  return {plan.resized, plan.cropped};
}

TEST(PreprocessorTest, SizeHasThreeForms) {
  const std::pair<Size, Size> square{{224, 224}, {224, 224}};
  EXPECT_EQ(plan_of(preprocessor(R"({"size": 224})")), square);
  EXPECT_EQ(plan_of(preprocessor(R"({"size": {"height": 224, "width": 224}})")), square);
  EXPECT_EQ(plan_of(preprocessor(R"({"size": {"height": 96, "width": 160}})")),
            (std::pair{Size{96, 160}, Size{96, 160}}));
  EXPECT_EQ(plan_of(preprocessor(R"({"size": {"shortest_edge": 256}, "do_center_crop": true,
                                     "crop_size": {"height": 224, "width": 224}})")),
            (std::pair{Size{256, 341}, Size{224, 224}}));
}

TEST(PreprocessorTest, ACropAfterSquashingIsExactForEverySize) {
  for (int crop : {32, 224, 299, 384}) {
    for (int size = crop; size < crop + 200; ++size) {
      const std::string json = R"({"do_center_crop": true, "size": )" + std::to_string(size) +
                               R"(, "crop_size": )" + std::to_string(crop) + "}";
      // transformers begins at 1 of 3 pixels, torchvision at 2.
      if ((size - crop) % 4 == 3) {
        EXPECT_ERROR(preprocessor(json), invalid_argument, "half a pixel");
        continue;
      }
      EXPECT_EQ(plan_of(preprocessor(json)), (std::pair{Size{size, size}, Size{crop, crop}}))
          << json;
    }
  }
}

TEST(PreprocessorTest, DefaultsAreThoseOfTheProcessor) {
  const TransformHints vit = preprocessor("{}");
  EXPECT_EQ(plan_of(vit), (std::pair{Size{224, 224}, Size{224, 224}}));
  EXPECT_EQ(vit.values.interpolation, Interpolation::bilinear);
  EXPECT_EQ(vit.values.mean, (std::array{0.5, 0.5, 0.5}));
  EXPECT_EQ(vit.origins.at("interpolation"), "defaults");
  for (const TransformHints& deit :
       {preprocessor("{}", Processor::deit),
        preprocessor(R"({"image_processor_type": "DeiTImageProcessor"})"),
        preprocessor(R"({"feature_extractor_type": "DeiTFeatureExtractor"})")}) {
    EXPECT_EQ(plan_of(deit), (std::pair{Size{256, 256}, Size{224, 224}}));
    EXPECT_EQ(deit.values.interpolation, Interpolation::bicubic);
  }
  EXPECT_EQ(
      plan_of(preprocessor(R"({"image_processor_type": "ViTImageProcessor"})", Processor::deit))
          .first,
      (Size{224, 224}));
}

TEST(PreprocessorTest, EveryProcessorHasItsClassesDefaults) {
  const std::array clip_mean{0.48145466, 0.4578275, 0.40821073};
  for (const char* type : {"CLIPImageProcessor", "CLIPFeatureExtractor", "CLIPImageProcessorFast",
                           "BitImageProcessor"}) {
    const TransformHints hints =
        preprocessor(R"({"image_processor_type": ")" + std::string(type) + R"("})");
    EXPECT_EQ(plan_of(hints), (std::pair{Size{224, 298}, Size{224, 224}})) << type;
    EXPECT_EQ(hints.values.mean, clip_mean);
    EXPECT_EQ(hints.values.interpolation, Interpolation::bicubic);
  }
  // A number is the shorter edge there.
  EXPECT_EQ(plan_of(preprocessor(R"({"size": 256, "crop_size": 224})", Processor::clip)),
            (std::pair{Size{256, 341}, Size{224, 224}}));
  const TransformHints siglip = preprocessor("{}", Processor::siglip);
  EXPECT_EQ(plan_of(siglip).first, (Size{224, 224}));
  EXPECT_EQ(siglip.values.interpolation, Interpolation::bicubic);
  EXPECT_EQ(siglip.values.mean, (std::array{0.5, 0.5, 0.5}));
  EXPECT_EQ(plan_of(preprocessor("{}", Processor::beit)).first, (Size{224, 224}));
  EXPECT_EQ(
      plan_of(preprocessor(R"({"do_center_crop": false, "size": 96})", Processor::beit)).first,
      (Size{96, 96}));
  EXPECT_ERROR(preprocessor(R"({"size": 96})", Processor::beit), invalid_argument, "do_center_crop",
               "transformers 4");
  const TransformHints dino = preprocessor("{}", Processor::dinov3);
  EXPECT_NE(dino.difference.find("half a grey level"), std::string::npos);
  EXPECT_EQ(siglip.difference, "");
  EXPECT_EQ(dino.values.interpolation, Interpolation::bilinear);
  EXPECT_EQ(dino.values.std, (std::array{0.229, 0.224, 0.225}));
}

// 299 - 224 = 75: transformers begins at 37, torchvision at 38.
TEST(PreprocessorTest, HalfAPixelGoesToTheRight) {
  const auto left_of = [](CropMode mode) {
    TransformHints hints = preprocessor("{}", Processor::clip);
    hints.values.crop_mode = mode;
    return image::plan_transform(hints.values, {300, 401}).window_left;
  };
  EXPECT_EQ(preprocessor("{}", Processor::clip).values.crop_mode, CropMode::center_floor);
  EXPECT_EQ(left_of(CropMode::center_floor), 37);
  EXPECT_EQ(left_of(CropMode::center), 38);
  EXPECT_ERROR(preprocessor(R"({"do_center_crop": true, "size": 227, "crop_size": 224})"),
               invalid_argument, "crop_size", "half a pixel");
}

TEST(PreprocessorTest, RefusesUnknownProcessorsAndKeys) {
  EXPECT_ERROR(preprocessor(R"({"image_processor_type": "Siglip2ImageProcessor"})"),
               unsupported_format, "Siglip2ImageProcessor", "preprocessor_config.json");
  for (const char* key : {"do_pad", "max_num_patches", "crop_pct", "do_flip_channel_order"})
    EXPECT_ERROR(preprocessor(R"({")" + std::string(key) + R"(": true})"), unsupported_format, key);
  EXPECT_NO_THROW(preprocessor(R"({"do_pad": false, "do_convert_rgb": true, "pad_size": null,
                                   "device": "cpu", "_valid_processor_keys": ["images"]})"));
}

TEST(PreprocessorTest, Resample) {
  EXPECT_EQ(preprocessor(R"({"resample": 0})").values.interpolation, Interpolation::nearest);
  EXPECT_EQ(preprocessor(R"({"resample": 2})").values.interpolation, Interpolation::bilinear);
  EXPECT_EQ(preprocessor(R"({"resample": 3})").values.interpolation, Interpolation::bicubic);
  EXPECT_EQ(preprocessor(R"({"resample": 3})").origins.at("interpolation"), "file");
  EXPECT_ERROR(preprocessor(R"({"resample": 1})"), invalid_argument, "resample", "3 (bicubic)");
  EXPECT_ERROR(preprocessor(R"({"resample": "bicubic"})"), invalid_argument, "resample");
}

TEST(PreprocessorTest, Normalisation) {
  const TransformHints usual = preprocessor(
      R"({"image_mean": [0.1, 0.2, 0.3], "image_std": 0.25, "rescale_factor": 0.00392156862745098})");
  EXPECT_EQ(usual.values.mean, (std::array{0.1, 0.2, 0.3}));
  EXPECT_EQ(usual.values.std, (std::array{0.25, 0.25, 0.25}));
  const TransformHints plain = preprocessor(R"({"do_normalize": false, "image_mean": [9, 9, 9]})");
  EXPECT_EQ(plain.values.mean, (std::array{0.0, 0.0, 0.0}));
  EXPECT_EQ(plain.values.std, (std::array{1.0, 1.0, 1.0}));
  // Pixels in 0..255: (255 x - 127.5) / 51 = (x - 0.5) / 0.2.
  const TransformHints bytes = preprocessor(
      R"({"do_rescale": false, "image_mean": [127.5, 127.5, 127.5], "image_std": [51, 51, 51]})");
  EXPECT_DOUBLE_EQ(bytes.values.mean[0], 0.5);
  EXPECT_DOUBLE_EQ(bytes.values.std[0], 0.2);
  // Pixels in -1..1 by a factor of 1/127.5 with a mean of 1: (2 x - 1) / 1.
  const TransformHints doubled = preprocessor(
      R"({"rescale_factor": 0.00784313725490196, "image_mean": [1, 1, 1], "image_std": [1, 1, 1]})");
  EXPECT_NEAR(doubled.values.mean[0], 0.5, 1e-12);
  EXPECT_NEAR(doubled.values.std[0], 0.5, 1e-12);
}

TEST(PreprocessorTest, WithoutAResizeThePictureKeepsItsSize) {
  const TransformHints hints = preprocessor(R"({"do_resize": false})");
  EXPECT_EQ(hints.values.views, image::Views::native);
  EXPECT_EQ(hints.origins.at("size"), "file");
  EXPECT_FALSE(hints.origins.contains("img_size"));
}

TEST(PreprocessorTest, RefusesWhatCannotBe) {
  for (const auto& [json, key] : {
           std::pair{R"({"size": 0})", "size"},
           {R"({"size": "224"})", "size"},
           {R"({"size": 65537})", "size"},
           {R"({"size": {"height": 224}})", "size"},
           {R"({"size": {"longest_edge": 224}})", "size: expected a number, {height, width}"},
           {R"({"size": {"height": 224, "width": -1}})", "size.width"},
           {R"({"size": {"shortest_edge": 224}})", "shortest_edge"},
           {R"({"crop_size": {"shortest_edge": 224}, "do_center_crop": true})", "crop_size"},
           {R"({"size": 224, "crop_size": 256, "do_center_crop": true})", "larger"},
           {R"({"size": {"height": 224, "width": 320}, "crop_size": 200, "do_center_crop": true})",
            "aspect"},
           {R"({"do_resize": 1})", "do_resize"},
           {R"({"do_resize": false, "do_center_crop": true})", "do_resize"},
           {R"({"image_std": [0, 1, 1]})", "image_std"},
           {R"({"image_mean": []})", "image_mean: expected a number or 3 numbers"},
           {R"({"rescale_factor": 0})", "rescale_factor"},
       }) {
    EXPECT_ERROR(preprocessor(json), invalid_argument, key, "preprocessor_config.json");
  }
}

TEST(TimmTransformTest, ReadsBackWhatItWrites) {
  image::TransformConfig config;
  config.img_size = {384, 640};
  config.crop_pct = 0.95;
  config.crop_mode = CropMode::border;
  config.interpolation = Interpolation::bilinear;
  config.mean = {0.1, 0.2, 0.3};
  config.std = {0.4, 0.5, 0.6};
  const TransformHints hints =
      parse_timm_transform(to_timm_transform(config, 3), "metadata", "a.safetensors");
  image::TransformConfig read;
  std::map<std::string, std::string> origins;
  hints.apply_to(read, origins);
  EXPECT_EQ(read, config);
  EXPECT_EQ(origins.size(), 6U);
  EXPECT_EQ(origins.at("img_size"), "metadata");
  EXPECT_ERROR(parse_timm_transform("[]", "metadata", "a.safetensors"), decode_failed,
               "a.safetensors");
}

// adapt_to_chs of timm's loader: what is not for as many channels is averaged.
TEST(TimmTransformTest, OtherChannelsTakeTheMean) {
  const auto mean_of = [](const std::string& json) {
    return parse_timm_transform(json, "o", "s").values.mean;
  };
  EXPECT_EQ(mean_of(R"({"mean": [0.5], "std": [0.25]})"), (std::array{0.5, 0.5, 0.5}));
  EXPECT_EQ(mean_of(R"({"input_size": [1, 9, 9], "mean": [0.3]})"), (std::array{0.3, 0.3, 0.3}));
  EXPECT_EQ(mean_of(R"({"input_size": [2, 9, 9], "mean": [0.25, 0.75]})"),
            (std::array{0.5, 0.5, 0.5}));
  EXPECT_ERROR(mean_of(R"({"mean": [0.25, 0.75]})"), invalid_argument, "mean");
  image::TransformConfig grey;
  grey.mean.fill(0.4);
  grey.std.fill(0.2);
  const std::string written = to_timm_transform(grey, 1);
  EXPECT_NE(written.find(R"("mean":[0.4],"std":[0.2])"), std::string::npos) << written;
  EXPECT_EQ(mean_of(written), grey.mean);
}

TEST(PreprocessorTest, OneChannelHasOneMean) {
  const nlohmann::json object =
      parse_json_object(R"({"image_mean": [0.4], "image_std": 0.2})", "preprocessor_config.json");
  const TransformHints hints =
      read_preprocessor(JsonFields(object, "preprocessor_config.json"), "file",
                        {Processor::vit, {224, 224}, "defaults", 1});
  EXPECT_EQ(hints.values.mean, (std::array{0.4, 0.4, 0.4}));
  EXPECT_EQ(hints.values.std, (std::array{0.2, 0.2, 0.2}));
}

TEST(TimmTransformTest, SaysNothingOfWhatIsAbsent) {
  const TransformHints hints = parse_timm_transform(R"({"crop_pct": 1.0, "mean": null})", "o", "s");
  image::TransformConfig read;
  read.mean = {9, 9, 9};
  std::map<std::string, std::string> origins{{"mean", "flag"}};
  hints.apply_to(read, origins);
  EXPECT_EQ(read.crop_pct, 1.0);
  EXPECT_EQ(read.mean, (std::array{9.0, 9.0, 9.0}));
  EXPECT_EQ(origins, (std::map<std::string, std::string>{{"mean", "flag"}, {"crop_pct", "o"}}));
}

}  // namespace
}  // namespace hydrascope::checkpoint
