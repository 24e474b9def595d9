#include "model/checkpoint/hub/hub_config.h"

#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

namespace hydrascope::checkpoint {
namespace hub_config_test {

using Kind = HubConfig::Kind;
using testing::TemporaryFolder;

HubConfig read(const std::string& config, const std::string& preprocessor = {}) {
  const TemporaryFolder folder;
  folder.write("config.json", config);
  if (!preprocessor.empty()) folder.write("preprocessor_config.json", preprocessor);
  return read_hub_config(folder.path());
}

// As timm 1.0 writes it.
constexpr const char* kTimm = R"({
  "architecture": "vit_base_patch16_224.augreg_in21k_ft_in1k", "num_classes": 1000,
  "num_features": 768, "global_pool": "token", "model_args": {"img_size": 224, "num_heads": 6},
  "pretrained_cfg": {
    "tag": "augreg_in21k_ft_in1k", "custom_load": false, "input_size": [3, 224, 200],
    "fixed_input_size": true, "interpolation": "bilinear", "crop_pct": 0.9, "crop_mode": "border",
    "mean": [0.5, 0.4, 0.3], "std": [0.25, 0.5, 0.125], "num_classes": 21843, "pool_size": null,
    "first_conv": "patch_embed.proj", "classifier": "head", "license": "apache-2.0"}})";

TEST(HubConfigTest, NoFileSaysNothing) {
  const TemporaryFolder folder;
  const HubConfig config = read_hub_config(folder.path());
  EXPECT_EQ(config.kind, Kind::none);
  EXPECT_TRUE(config.notes.empty());
  EXPECT_TRUE(config.transform.origins.empty());
}

TEST(HubConfigTest, ReadsTimms) {
  const HubConfig config = read(kTimm);
  EXPECT_EQ(config.kind, Kind::timm);
  EXPECT_EQ(config.architecture, "vit_base_patch16_224.augreg_in21k_ft_in1k");
  EXPECT_EQ(config.num_classes, 1000);
  EXPECT_EQ(config.num_heads, 6);
  EXPECT_EQ(config.img_height, 224);
  EXPECT_EQ(config.img_width, 224) << "model_args say what the weights are for";
  EXPECT_EQ(config.global_pool, model::Pooling::token);
  EXPECT_EQ(config.license, "apache-2.0");
  EXPECT_FALSE(config.layer_norm_eps);
  const image::TransformConfig& transform = config.transform.values;
  EXPECT_EQ(transform.img_size, (image::Size{224, 200}));
  EXPECT_EQ(transform.interpolation, image::Interpolation::bilinear);
  EXPECT_EQ(transform.crop_mode, image::CropMode::border);
  EXPECT_EQ(transform.crop_pct, 0.9);
  EXPECT_EQ(transform.mean, (std::array{0.5, 0.4, 0.3}));
  EXPECT_EQ(transform.std, (std::array{0.25, 0.5, 0.125}));
  EXPECT_EQ(config.transform.origins.size(), 6U);
  EXPECT_EQ(config.transform.origins.at("mean"), "config.json");
}

TEST(HubConfigTest, ReadsTimmsOfBefore09AndItsLabels) {
  const HubConfig config = read(R"({"architecture": "deit_tiny_patch16_224", "num_classes": 3,
      "input_size": [3, 224, 224], "crop_pct": 0.875,
      "label_names": ["n02119789", "dog", " \n"],
      "label_descriptions": {"n02119789": "kit fox, Vulpes macrotis", "dog": ""}})");
  EXPECT_EQ(config.transform.values.crop_pct, 0.875);
  EXPECT_EQ(config.labels,
            (std::vector<std::string>{"n02119789 kit fox, Vulpes macrotis", "dog", "2"}));
  EXPECT_TRUE(config.notes.empty());
  EXPECT_TRUE(read(R"({"architecture": "vit_giant"})").notes.empty());
}

TEST(HubConfigTest, WeightsWithoutAClassifierSayNoNumberOfClasses) {
  const HubConfig config = read(
      R"({"architecture": "vit_small_patch16_dinov3", "num_classes": 0,
          "pretrained_cfg": {"num_classes": 0, "input_size": [3, 256, 256]}})");
  EXPECT_EQ(config.num_classes, std::nullopt);
  EXPECT_EQ(config.img_height, 256);
}

TEST(HubConfigTest, ReadsHuggingFaces) {
  const HubConfig config = read(
      R"({"model_type": "deit", "hidden_size": 192, "num_hidden_layers": 12, "hidden_act": "gelu",
          "num_attention_heads": 3, "intermediate_size": 768, "layer_norm_eps": 1e-05,
          "image_size": [384, 640], "patch_size": 16, "num_channels": 3, "qkv_bias": true,
          "id2label": {"1": "cat", "0": "tench, Tinca tinca"}, "label2id": {"cat": 1}})",
      R"({"size": 256, "do_center_crop": true, "crop_size": 224, "resample": 3,
          "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]})");
  EXPECT_EQ(config.kind, Kind::hugging_face);
  EXPECT_EQ(config.num_heads, 3);
  EXPECT_EQ(config.layer_norm_eps, 1e-5);
  EXPECT_EQ(config.img_height, 384);
  EXPECT_EQ(config.img_width, 640);
  EXPECT_EQ(config.num_classes, 2);
  EXPECT_EQ(config.labels, (std::vector<std::string>{"tench, Tinca tinca", "cat"}));
  EXPECT_EQ(config.transform.origins.at("mean"), "preprocessor_config.json");
  EXPECT_TRUE(config.notes.empty());
}

TEST(HubConfigTest, WithoutAPreprocessorItsDefaultsAreSaid) {
  const HubConfig vit = read(R"({"model_type": "vit", "image_size": 384})");
  EXPECT_NE(vit.notes.at(0).find("preprocessor_config.json"), std::string::npos);
  EXPECT_EQ(vit.transform.values.img_size, (image::Size{384, 384}));
  EXPECT_EQ(vit.transform.values.mean, (std::array{0.5, 0.5, 0.5}));
  EXPECT_EQ(vit.transform.values.interpolation, image::Interpolation::bilinear);
  EXPECT_EQ(vit.transform.origins.at("mean"), "Hugging Face's defaults for vit");
  EXPECT_FALSE(vit.layer_norm_eps);
}

TEST(HubConfigTest, NamesThatTransformersMadeUpAreNone) {
  EXPECT_TRUE(read(R"({"model_type": "vit", "id2label": {"0": "LABEL_0", "1": "LABEL_1"}})")
                  .labels.empty());
}

TEST(HubConfigTest, AFileAboutSomethingElseIsNotUsed) {
  const HubConfig config = read(R"({"learning_rate": 0.1})");
  EXPECT_EQ(config.kind, Kind::none);
  EXPECT_NE(config.notes.at(0).find("config.json"), std::string::npos);
}

TEST(HubConfigTest, RefusesOtherModelsByName) {
  EXPECT_ERROR(read(R"({"model_type": "swin"})"), unsupported_format, "swin", "vit and deit",
               "config.json");
  EXPECT_ERROR(read(R"({"model_type": "vit", "hidden_act": "quick_gelu"})"), unsupported_format,
               "quick_gelu");
  EXPECT_ERROR(read(R"({"architecture": "vit", "model_args": {"act_layer": "relu"}})"),
               unsupported_format, "act_layer");
}

TEST(HubConfigTest, ErrorsNameFileAndKey) {
  struct Case {
    const char* json;
    const char* key;
  };
  for (const auto& [json, key] : {
           Case{R"({"model_type": 3})", "model_type: expected a string, found 3"},
           Case{R"({"model_type": "vit", "hidden_size": "768"})", "hidden_size: expected an int"},
           Case{R"({"model_type": "vit", "num_attention_heads": 0})", "num_attention_heads"},
           Case{R"({"model_type": "vit", "num_hidden_layers": 1e3})", "num_hidden_layers"},
           Case{R"({"model_type": "vit", "hidden_size": 99999999999999999999})", "hidden_size"},
           Case{R"({"model_type": "vit", "hidden_size": 18446744073709551615})", "hidden_size"},
           Case{R"({"model_type": "vit", "layer_norm_eps": 2})", "layer_norm_eps"},
           Case{R"({"model_type": "vit", "image_size": [224]})", "image_size"},
           Case{R"({"model_type": "vit", "patch_size": [16, 14]})", "patch_size"},
           Case{R"({"model_type": "vit", "id2label": ["a"]})", "id2label"},
           Case{R"({"model_type": "vit", "id2label": {"0": "a", "2": "b"}})", "\"2\""},
           Case{R"({"model_type": "vit", "id2label": {"0": "a", "00": "b"}})", "\"00\""},
           Case{R"({"model_type": "vit", "id2label": {"0": 1}})", "id2label"},
           Case{R"({"architecture": ["vit"]})", "architecture"},
           Case{R"({"architecture": "v", "global_pool": "map"})", "global_pool"},
           Case{R"({"architecture": "v", "label_names": "a"})", "label_names"},
           Case{R"({"architecture": "v", "pretrained_cfg": []})", "pretrained_cfg: expected"},
           Case{R"({"architecture": "v", "pretrained_cfg": {"crop_pct": 1.5}})",
                "pretrained_cfg.crop_pct"},
           Case{R"({"architecture": "v", "pretrained_cfg": {"crop_mode": "left"}})",
                "pretrained_cfg.crop_mode"},
           Case{R"({"architecture": "v", "pretrained_cfg": {"interpolation": "lanczos"}})",
                "pretrained_cfg.interpolation"},
           Case{R"({"architecture": "v", "pretrained_cfg": {"input_size": [3, 0, 9]}})",
                "pretrained_cfg.input_size"},
           Case{R"({"architecture": "v", "pretrained_cfg": {"mean": [1, 2]}})",
                "pretrained_cfg.mean"},
           Case{R"({"architecture": "v", "pretrained_cfg": {"std": [1, 0, 1]}})",
                "pretrained_cfg.std"},
       }) {
    EXPECT_ERROR(read(json), invalid_argument, key, "config.json");
  }
}

TEST(HubConfigTest, BrokenFilesAreErrors) {
  for (const char* json : {"", "[]", "{", "{\"a\": 1, \"a\": 2}", "{\"a\": \"\xff\"}"})
    EXPECT_ERROR(read(json), decode_failed, "config.json");
  EXPECT_ERROR(read(R"({"model_type": "vit"})", "{"), decode_failed, "preprocessor_config.json");
  std::string deep = R"({"model_type": "vit", "a": )";
  for (int i = 0; i < 100; ++i) deep += "[";
  EXPECT_ERROR(read(deep), decode_failed, "deeper");
}

TEST(HubConfigTest, AppliesWhatTensorsDoNotShowAndChecksTheRest) {
  const HubConfig config = read(R"({"model_type": "vit", "hidden_size": 64, "image_size": 96,
      "num_attention_heads": 4, "layer_norm_eps": 1e-7, "num_hidden_layers": 2})");
  model::VitConfig vit;
  vit.embed_dim = 64;
  vit.depth = 2;
  config.apply_to(vit);
  EXPECT_EQ(vit.num_heads, 4);
  EXPECT_EQ(vit.img_height, 96);
  EXPECT_EQ(vit.layer_norm_eps, 1e-7);
  EXPECT_NO_THROW(config.check(vit));
  vit.depth = 3;
  EXPECT_ERROR(config.check(vit), invalid_argument, "num_hidden_layers says 2", "show 3",
               "config.json");
  EXPECT_ERROR(read(R"({"model_type": "vit", "num_attention_heads": 5})").check(vit),
               invalid_argument, "5 attention heads", "64");
}

}  // namespace hub_config_test
}  // namespace hydrascope::checkpoint
