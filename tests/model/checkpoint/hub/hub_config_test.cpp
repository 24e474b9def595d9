#include "model/checkpoint/hub/hub_config.h"

#include "model/checkpoint/formats/json_fields.h"
#include "tests/cases.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>

namespace hydrascope::checkpoint {
namespace hub_config_test {

using image::CropMode;
using testing::Json;
using testing::TemporaryFolder;

/// A file's contents: a text as it is, or an object.
std::string contents_of(const Json& value) {
  return value.is_string() ? testing::bytes_in(value.get<std::string>()) : value.dump();
}

Json facts_of(const TransformHints& hints) {
  const auto rounded = [](std::array<double, 3> values) {
    for (double& value : values) value = std::round(value * 1e12) / 1e12;
    return values;
  };
  const image::TransformConfig& values = hints.values;
  Json facts{{"img_size", {values.img_size.height, values.img_size.width}},
             {"crop_pct", values.crop_pct},
             {"crop_mode", name(values.crop_mode)},
             {"interpolation", name(values.interpolation)},
             {"mean", rounded(values.mean)},
             {"std", rounded(values.std)},
             {"views", name(values.views)},
             {"difference", hints.difference}};
  if (!hints.origins.empty()) facts["origins"] = hints.origins;
  return facts;
}

/// An unset member is absent.
Json facts_of(const HubConfig& config) {
  constexpr std::array kKinds{"none", "timm", "hugging_face"};
  Json facts{{"kind", kKinds.at(static_cast<std::size_t>(config.kind))},
             {"architecture", config.architecture},
             {"license", config.license},
             {"labels", config.labels},
             {"activation", config.activation},
             {"num_notes", config.notes.size()},
             {"transform", facts_of(config.transform)}};
  const auto add = [&](const char* fact, const auto& value) {
    if (value) facts[fact] = *value;
  };
  add("num_heads", config.num_heads);
  add("num_classes", config.num_classes);
  add("img_height", config.img_height);
  add("img_width", config.img_width);
  add("layer_norm_eps", config.layer_norm_eps);
  add("post_norm", config.post_norm);
  if (config.global_pool) facts["global_pool"] = model::name(*config.global_pool);
  if (config.rotations) {
    facts["rotations"] = config.rotations->options;
    facts["rotations"]["rule"] = config.rotations->rule;
  }
  return facts;
}

HubConfig read(const Json& row) {
  if (row.contains("metadata"))
    return read_training_arguments(row["metadata"].get<std::map<std::string, std::string>>(),
                                   "a.pth");
  const TemporaryFolder folder;
  folder.write("config.json", contents_of(row.at("config")));
  if (row.contains("preprocessor"))
    folder.write("preprocessor_config.json", contents_of(row["preprocessor"]));
  return read_hub_config(folder.path());
}

TEST(HubConfigTest, EveryFileIsReadCheckedOrRefused) {
  for (const Json& row : testing::read_cases("model/checkpoint/hub/hub_config.jsonl")) {
    testing::expect_case(row, [&] {
      const HubConfig config = read(row);
      testing::expect_facts(facts_of(config), row.value("facts", Json::object()));
      for (const std::string words : row.value("notes", Json::array()))
        EXPECT_NE(config.notes.at(0).find(words), std::string::npos) << config.notes[0];
      model::VitConfig shown =
          model::config_from_json(row.value("shown", Json::object()).dump(), "shown");
      if (row.contains("applied")) {
        config.apply_to(shown);
        testing::expect_facts(Json::parse(model::to_json(shown)), row["applied"]);
      }
      if (row.contains("is_known")) config.check_is_known();
      if (row.contains("shown")) config.check(shown);
      if (row.contains("rows")) config.check_classes(row["rows"]);
    });
  }
}

TEST(HubConfigTest, NoFileSaysNothing) {
  const TemporaryFolder folder;
  const HubConfig config = read_hub_config(folder.path());
  EXPECT_EQ(config.kind, HubConfig::Kind::none);
  EXPECT_TRUE(config.notes.empty());
  EXPECT_TRUE(config.transform.origins.empty());
  std::string deep = R"({"model_type": "vit", "a": )";
  for (int i = 0; i < 100; ++i) deep += "[";
  EXPECT_ERROR(read({{"config", deep}}), decode_failed, "deeper");
}

TEST(HubConfigTest, ALinkThatLeadsNowhereIsNoAbsentFile) {
  for (const char* name : {"config.json", "preprocessor_config.json"}) {
    const TemporaryFolder folder;
    folder.write("config.json", R"({"model_type": "vit"})");
    const auto file = folder.path() / name;
    std::filesystem::remove(file);
    std::filesystem::create_symlink("../../blobs/gone", file);
    EXPECT_ERROR(read_hub_config(folder.path()), not_found, "link to a file that does not exist",
                 "../../blobs/gone", name);
    std::filesystem::remove(file);
    std::filesystem::create_symlink(name, file);
    EXPECT_ERROR(read_hub_config(folder.path()), not_found, "link", name);
    std::filesystem::remove(file);
    std::filesystem::create_directory(file);
    EXPECT_ERROR(read_hub_config(folder.path()), unreadable, "folder", name);
    std::filesystem::remove(file);
    folder.write(name, "");
    EXPECT_ERROR(read_hub_config(folder.path()), decode_failed, "empty", name);
  }
}

// Transforms.

TransformHints preprocessor(const Json& row) {
  const std::string file = "preprocessor_config.json";
  if (row.contains("timm")) return parse_timm_transform(contents_of(row["timm"]), "o", file);
  constexpr std::array kProcessors{"vit", "deit", "beit", "bit", "clip", "siglip", "dinov3"};
  const auto* found = std::ranges::find(kProcessors, row.value("processor", "vit"));
  const nlohmann::json object = parse_json_object(contents_of(row.at("json")), file);
  return read_preprocessor(JsonFields(object, file), "file",
                           {static_cast<Processor>(found - kProcessors.begin()),
                            {224, 224},
                            "defaults",
                            row.value("channels", 3)});
}

/// The size that a picture of 300x400 is resized to, and the window that is taken.
Json plan_of(const TransformHints& hints) {
  const image::TransformPlan plan = image::plan_transform(hints.values, {300, 400});
  return {{plan.resized.height, plan.resized.width}, {plan.cropped.height, plan.cropped.width}};
}

TEST(PreprocessorTest, EveryFileIsReadOrRefused) {
  for (const Json& row : testing::read_cases("model/checkpoint/hub/preprocessor.jsonl")) {
    testing::expect_case(row, [&] {
      const TransformHints hints = preprocessor(row);
      testing::expect_facts(facts_of(hints), row.value("facts", Json::object()));
      EXPECT_NE(hints.difference.find(row.value("difference", "")), std::string::npos);
      if (row.contains("plan")) {
        EXPECT_EQ(plan_of(hints), row["plan"]);
      }
    });
  }
}

TEST(PreprocessorTest, ACropAfterSquashingIsExactForEverySize) {
  for (int crop : {32, 224, 299, 384}) {
    for (int size = crop; size < crop + 200; ++size) {
      const Json row{{"json", {{"do_center_crop", true}, {"size", size}, {"crop_size", crop}}}};
      // transformers begins at 1 of 3 pixels, torchvision at 2.
      if ((size - crop) % 4 == 3) {
        EXPECT_ERROR(preprocessor(row), invalid_argument, "half a pixel");
        continue;
      }
      EXPECT_EQ(plan_of(preprocessor(row)), Json({{size, size}, {crop, crop}})) << row;
    }
  }
}

// 299 - 224 = 75: transformers begins at 37, torchvision at 38.
TEST(PreprocessorTest, HalfAPixelGoesToTheRight) {
  for (const auto& [mode, left] : {std::pair{CropMode::center_floor, 37}, {CropMode::center, 38}}) {
    TransformHints hints = preprocessor({{"json", Json::object()}, {"processor", "clip"}});
    hints.values.crop_mode = mode;
    EXPECT_EQ(image::plan_transform(hints.values, {300, 401}).window_left, left);
  }
}

TEST(TimmTransformTest, ReadsBackWhatItWrites) {
  image::TransformConfig config;
  config.img_size = {384, 640};
  config.crop_pct = 0.95;
  config.crop_mode = CropMode::border;
  config.interpolation = image::Interpolation::bilinear;
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
  config.mean.fill(0.4);
  config.std.fill(0.2);
  const std::string grey = to_timm_transform(config, 1);
  EXPECT_NE(grey.find(R"("mean":[0.4],"std":[0.2])"), std::string::npos) << grey;
  EXPECT_EQ(parse_timm_transform(grey, "o", "s").values.mean, config.mean);
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

}  // namespace hub_config_test
}  // namespace hydrascope::checkpoint
