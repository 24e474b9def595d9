#include "model/checkpoint/hub/hub_config.h"

#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

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
  EXPECT_EQ(config.layer_norm_eps, 1e-6) << "of that architecture";
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
  for (const char* type : {"swin", "siglip2", "vit_hybrid", "hiera", "videomae"})
    EXPECT_ERROR(read(R"({"model_type": ")" + std::string(type) + R"("})"), unsupported_format,
                 type, "vit, deit", "dinov3_vit", "config.json");
  EXPECT_ERROR(read(R"({"model_type": "vit", "hidden_act": "mish"})"), unsupported_format, "mish");
  EXPECT_ERROR(read(R"({"hidden_size": 64})"), unsupported_format, "model_type", "vit, deit");
}

TEST(HubConfigTest, TypesOfHuggingFaceHaveTheirClassesDefaults) {
  const HubConfig dino = read(R"({"model_type": "dinov2", "hidden_size": 768})");
  EXPECT_EQ(dino.num_heads, 12);
  EXPECT_EQ(dino.layer_norm_eps, 1e-6);
  EXPECT_FALSE(dino.rotations);
  const HubConfig rotated = read(R"({"model_type": "dinov3_vit", "rope_theta": 50.0,
                                     "hidden_act": "silu", "use_gated_mlp": true})");
  EXPECT_EQ(rotated.rotations->options.at("base"), "50");
  EXPECT_EQ(rotated.layer_norm_eps, 1e-5);
  EXPECT_EQ(rotated.activation, "");
  EXPECT_EQ(read(R"({"model_type": "dinov3_vit"})").rotations, dinov3_rotations());
  const HubConfig inside =
      read(R"({"model_type": "clip", "vision_config": {"hidden_act": "gelu", "image_size": 336}})");
  EXPECT_EQ(inside.img_height, 336);
  EXPECT_EQ(inside.layer_norm_eps, 1e-5);
  EXPECT_EQ(inside.transform.values.crop_mode, image::CropMode::center_floor);
  EXPECT_ERROR(read(R"({"model_type": "dinov3_vit", "use_gated_mlp": true})"), unsupported_format,
               "silu");
  EXPECT_ERROR(read(R"({"model_type": "dinov3_vit", "proj_bias": false})"), unsupported_format,
               "proj_bias");
  EXPECT_ERROR(read(R"({"model_type": "clip", "vision_config": {"hidden_act": "mish"}})"),
               unsupported_format, "mish");
}

TEST(HubConfigTest, ANameSaysThePartsThatNoTensorShows) {
  const auto of = [](const std::string& name) {
    model::VitConfig config;
    read(R"({"architecture": ")" + name + R"("})").apply_to(config);
    return config;
  };
  EXPECT_TRUE(of("vit_base_patch16_rpn_224.sw_in1k").post_norm);
  EXPECT_TRUE(of("vit_relpos_medium_patch16_rpn_224").post_norm);
  EXPECT_FALSE(of("vit_base_patch16_224").post_norm);
  EXPECT_EQ(of("vit_base_patch32_clip_quickgelu_224").act, model::Activation::quick_gelu);
  EXPECT_EQ(of("vit_base_patch16_clip_224").act, model::Activation::gelu);
  EXPECT_EQ(of("vit_large_patch16_siglip_gap_512").act, model::Activation::gelu_tanh);
  EXPECT_EQ(of("vit_base_patch16_siglip_224").global_pool, model::Pooling::map);
  EXPECT_EQ(of("vit_pe_core_base_patch16_224").pool_heads, 8);
  EXPECT_TRUE(of("vit_pe_core_base_patch16_224").pool_prefix);
  EXPECT_FALSE(of("vit_huge_patch16_radio_v3").final_norm);
  EXPECT_TRUE(of("vit_base_patch16_224").final_norm);
}

TEST(HubConfigTest, AnArchitectureWithAnotherPartIsRefusedByItsName) {
  for (const auto& [name, part] : {
           std::pair{"vit_dlittle_patch16_reg1_gap_256", "differential attention"},
           {"aimv2_large_patch14_224", "RMSNorm"},
           {"vit_pwee_patch16_reg1_gap_256", "parallel blocks"},
           {"swin_tiny_patch4_window7_224", "timm's swin_transformer"},
           {"vit_base_r50_s16_224", "timm's vision_transformer_hybrid"},
           {"samvit_base_patch16", "timm's vision_transformer_sam"},
           {"resnet18", "timm's resnet"},
       }) {
    // The number of heads, which a hint once asked for, changes nothing.
    EXPECT_ERROR(read(R"({"architecture": ")" + std::string(name) +
                      R"(", "model_args": {"num_heads": 12}})"),
                 unsupported_format, part, "config.json");
  }
}

TEST(HubConfigTest, WhatATimmsNameSaysBesideTheTensors) {
  const HubConfig giant = read(R"({"architecture": "eva_giant_patch14_224"})");
  EXPECT_EQ(giant.num_heads, 16);
  EXPECT_EQ(giant.global_pool, model::Pooling::avg);
  const HubConfig former = read(R"({"architecture": "vit_base_patch16_224_in21k"})");
  EXPECT_EQ(former.architecture, "vit_base_patch16_224.augreg_in21k");
  EXPECT_EQ(former.num_heads, 12);
  const HubConfig dinov3 = read(R"({"architecture": "vit_small_patch16_dinov3"})");
  EXPECT_EQ(dinov3.layer_norm_eps, 1e-5);
  for (const char* known : {"vit", "vit_tiny_patch16_96", "vit_tiny_patch16_224.a_tag_of_mine"})
    EXPECT_NO_THROW(read(R"({"architecture": ")" + std::string(known) + "\"}").check_is_known());
  for (const char* unknown : {"", "mine", "vit_little_patch8_32", "VIT"}) {
    EXPECT_ERROR(read(R"({"architecture": ")" + std::string(unknown) + "\"}").check_is_known(),
                 unsupported_format, "is not known", "config.json", "`model` NAME");
  }
}

TEST(HubConfigTest, APartOfTheNameMayBeSaidAgain) {
  const auto with = [](const std::string& architecture, const std::string& more) {
    return read(R"({"architecture": ")" + architecture + R"(", )" + more + "}");
  };
  // Pooling: another one wins, unless the name's class has no attention pooling.
  const auto pooled = [&](const std::string& more) {
    model::VitConfig config;
    with("vit_pe_core_base_patch16_224", more).apply_to(config);
    return config;
  };
  EXPECT_EQ(pooled(R"("global_pool": "map")").pool_heads, 8);
  for (const char* avg : {R"("global_pool": "avg")", R"("model_args": {"global_pool": "avg"})",
                          R"("global_pool": "map", "model_args": {"global_pool": "avg"})"}) {
    EXPECT_EQ(pooled(avg).global_pool, model::Pooling::avg) << avg;
    EXPECT_EQ(pooled(avg).pool_heads, 0) << avg;
    EXPECT_FALSE(pooled(avg).pool_prefix) << avg;
  }
  EXPECT_ERROR(with("vit_base_patch16_224", R"("model_args": {"global_pool": "map"})"),
               unsupported_format, "attention pooling", "vit_base_patch16_224", "config.json");

  // The order of norms.
  const std::string rpn = "vit_base_patch16_rpn_224";
  EXPECT_EQ(with(rpn, R"("model_args": {"use_post_norm": true})").post_norm, true);
  EXPECT_ERROR(with(rpn, R"("model_args": {"use_post_norm": false})"), unsupported_format,
               "use_post_norm");
  EXPECT_NO_THROW(with("vit_tiny_patch16_224", R"("model_args": {"use_post_norm": false})"));

  // The size, which rotations of Perception Encoder count patches of.
  const std::string pe = "vit_pe_core_base_patch16_224.fb";
  EXPECT_EQ(with(pe, R"("model_args": {"img_size": 224})").img_height, 224);
  EXPECT_NO_THROW(with(pe, R"("model_args": {"img_size": [224, 224]})"));
  for (const char* other :
       {R"("model_args": {"img_size": 336})", R"("model_args": {"img_size": [224, 336]})"})
    EXPECT_ERROR(with(pe, other), unsupported_format, "another size than its own");
}

TEST(HubConfigTest, ArgumentsOfTimmAreReadOrRefused) {
  const auto with = [](const std::string& architecture, const std::string& arguments) {
    return read(R"({"architecture": ")" + architecture + R"(", "model_args": )" + arguments + "}");
  };
  for (const char* harmless :
       {R"({"act_layer": "gelu", "norm_layer": "layernorm"})", R"({"num_classes": 0})",
        R"({"act_layer": "quick_gelu", "pre_norm": true, "final_norm": false})",
        R"({"drop_path_rate": 0.1, "weight_init": "jax", "dynamic_img_size": true})",
        R"({"pool_include_prefix": false, "fc_norm": null, "act_layer": null, "unheard_of": null})",
        R"({"qk_norm": false, "pre_norm": false, "scale_attn_norm": false, "proj_bias": true})",
        R"({"final_norm": true, "pos_embed": "learn", "use_shared_rel_pos_bias": false})",
        R"({"rope_temperature": 10.0})", R"({"use_rot_pos_emb": false})"})
    EXPECT_NO_THROW(with("vit_tiny_patch16_224", harmless)) << harmless;
  EXPECT_FALSE(with("vit_tiny_patch16_224", R"({"num_classes": 0})").num_classes);
  for (const auto& [arguments, key] : {
           std::pair{R"({"act_layer": "relu"})", "act_layer"},
           {R"({"norm_layer": "rmsnorm"})", "norm_layer"},
           {R"({"attn_layer": "diff"})", "attn_layer"},
           {R"({"block_fn": "ResPostBlock"})", "block_fn"},
           {R"({"mlp_layer": "swiglu"})", "mlp_layer"},
           {R"({"use_post_norm": true})", "use_post_norm"},
           {R"({"use_rot_pos_emb": true})", "use_rot_pos_emb"},
           {R"({"rel_pos_type": "mlp-swin"})", "rel_pos_type"},
           {R"({"unheard_of": 3})", "unheard_of"},
           {R"({"qk_norm": true})", "qk_norm"},
           {R"({"proj_bias": false})", "proj_bias"},
           {R"({"attn_only_layer_scale": true})", "attn_only_layer_scale"},
           {R"({"shared_rel_pos": true})", "shared_rel_pos"},
           {R"({"use_rel_pos_bias": false})", "use_rel_pos_bias"},
           {R"({"num_kv_heads": 1})", "num_kv_heads"},
           {R"({"embed_norm_layer": "layernorm"})", "embed_norm_layer"},
           {R"({"pos_embed": "none"})", "pos_embed"},
       })
    EXPECT_ERROR(with("vit_tiny_patch16_224", arguments), unsupported_format, key, "config.json");
  // Rotations are the architecture's own, or refused.
  for (const auto& [architecture, same, other] : {
           std::tuple{"eva02_tiny_patch14_224", R"({"rope_temperature": 10000})",
                      R"({"rope_temperature": 100.0})"},
           {"eva02_tiny_patch14_224", R"({"ref_feat_shape": [16, 16]})",
            R"({"ref_feat_shape": null})"},
           {"eva02_tiny_patch14_224", R"({"ref_feat_shape": 16})", R"({"ref_feat_shape": [8, 8]})"},
           {"eva02_tiny_patch14_224", R"({"use_rot_pos_emb": true})",
            R"({"use_rot_pos_emb": false})"},
           {"eva02_tiny_patch14_224", R"({"rope_type": "cat"})", R"({"rope_type": "mixed"})"},
           {"vit_small_patch16_rope_224", R"({"rope_grid_indexing": "xy"})",
            R"({"rope_grid_indexing": "ij"})"},
           {"vit_small_patch16_rope_224", R"({"ref_feat_shape": null})",
            R"({"ref_feat_shape": [7, 7]})"},
           {"vit_small_patch16_rope_mixed_224", R"({"rope_type": "mixed"})",
            R"({"rope_type": "cat"})"},
           {"vit_small_patch16_dinov3", R"({"rope_rotate_half": true})",
            R"({"rope_rotate_half": false})"},
           {"vit_small_patch16_dinov3", R"({"rope_grid_offset": 0.0})",
            R"({"rope_grid_offset": 0.5})"},
       }) {
    EXPECT_NO_THROW(with(architecture, same)) << same;
    EXPECT_ERROR(with(architecture, other), unsupported_format, "model_args.");
  }
  EXPECT_ERROR(read(R"({"architecture": "vit_tiny_patch16_224", "global_pool": "max"})"),
               invalid_argument, "global_pool");
  EXPECT_ERROR(with("vit_tiny_patch16_224", R"({"in_chans": 4})"), unsupported_format,
               "takes 4 channels");
}

TEST(HubConfigTest, ArgumentsOfTraining) {
  const auto of = [](const std::map<std::string, std::string>& metadata) {
    return read_training_arguments(metadata, "a.pth");
  };
  EXPECT_EQ(of({{"epoch", "3"}, {"args.lr", "0.1"}}).kind, Kind::none);
  for (const char* name : {"vit_small_patch16_dinov3", "timm/vit_small_patch16_dinov3.lvd1689m",
                           "hf-hub:timm/vit_small_patch16_dinov3"}) {
    const HubConfig config = of({{"args.model", name}});
    EXPECT_EQ(config.num_heads, 6) << name;
    EXPECT_EQ(config.layer_norm_eps, 1e-5);
    EXPECT_TRUE(config.transform.origins.empty());
  }
  const HubConfig given = of({{"arch", "vit_tiny_patch16_224"},
                              {"args.model", "vit_base_patch16_224"},
                              {"args.gp", "avg"},
                              {"args.model_kwargs.num_heads", "6"}});
  EXPECT_EQ(given.architecture, "vit_tiny_patch16_224");
  EXPECT_EQ(given.num_heads, 6);
  EXPECT_EQ(given.global_pool, model::Pooling::avg);
  EXPECT_ERROR(of({{"arch", "vit_pwee_patch16_reg1_gap_256"}}), unsupported_format,
               "parallel blocks", "a.pth");
  EXPECT_ERROR(of({{"arch", "vit_tiny_patch16_224"}, {"args.model_kwargs.act_layer", "relu"}}),
               unsupported_format, "model_args.act_layer", "a.pth");
  EXPECT_ERROR(of({{"arch", "mine"}}).check_is_known(), unsupported_format, "is not known",
               "a.pth");
  EXPECT_ERROR(of({{"arch", "vit_base_patch16_224"}}).check({}), invalid_argument,
               "(embed_dim) says 768, the tensors show 192", "a.pth");
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
           Case{R"({"architecture": "v", "global_pool": "max"})", "global_pool"},
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
           Case{R"({"architecture": "v", "pretrained_cfg": {"mean": []}})", "pretrained_cfg.mean"},
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
  const auto contradicts = [](const char* json, model::VitConfig shown, const char* what) {
    EXPECT_ERROR(read(json).check(shown), invalid_argument, what, "the tensors show",
                 "config.json");
  };
  vit = {};  // 192 features, patches of 16
  contradicts(R"({"architecture": "vit_tiny_patch16_224", "num_features": 768})", vit,
              "num_features says 768");
  contradicts(R"({"model_type": "vit", "intermediate_size": 3072})", vit,
              "intermediate_size says 3072");
  contradicts(R"({"model_type": "vit", "qkv_bias": false})", vit, "qkv_bias says false");
  contradicts(R"({"architecture": "vit", "model_args": {"reg_tokens": 4}})", vit,
              "reg_tokens says 4");
  const auto arguments = [&](const char* json, const char* what) {
    contradicts(
        (R"({"architecture": "vit_tiny_patch16_224", "model_args": )" + std::string(json) + "}")
            .c_str(),
        vit, what);
  };
  arguments(R"({"class_token": false})", "class_token says false, the tensors show true");
  arguments(R"({"no_embed_class": true})", "no_embed_class says true, the tensors show false");
  arguments(R"({"init_values": 1e-5})", "init_values says a LayerScale, the tensors show no Layer");
  arguments(R"({"mlp_ratio": 2.5})", "mlp_ratio says 2.5, the tensors show 4");
  arguments(R"({"scale_mlp_norm": true})", "scale_mlp_norm says true");
  arguments(R"({"swiglu_mlp": true})", "swiglu_mlp says true");
  arguments(R"({"use_abs_pos_emb": false})", "use_abs_pos_emb says false");
  arguments(R"({"use_rel_pos_bias": true})", "use_rel_pos_bias says true");
  arguments(R"({"rel_pos_dim": 64})", "rel_pos_dim says 64, the tensors show no network");
  arguments(R"({"global_pool": "avg"})", "global_pool says avg with an fc_norm, the tensors show");
  contradicts(R"({"architecture": "vit_tiny_patch16_224", "global_pool": "avg"})", vit,
              "global_pool says avg with an fc_norm");
  contradicts(R"({"architecture": "deit_tiny_distilled_patch16_224.fb_in1k"})", vit,
              "(dist_token) says true, the tensors show false");
  contradicts(R"({"architecture": "vit_tiny_patch16_224",
                  "pretrained_cfg": {"input_size": [1, 224, 224]}})",
              vit, "input_size (channels) says 1, the tensors show 3");
  for (const char* agrees :
       {R"({"class_token": true, "no_embed_class": false, "mlp_ratio": 4, "init_values": null})",
        R"({"mlp_ratio": 4.001, "scale_mlp_norm": false, "use_abs_pos_emb": true})",
        R"({"global_pool": "avg", "fc_norm": false})", R"({"fc_norm": true})"}) {
    EXPECT_NO_THROW(read(R"({"architecture": "vit_tiny_patch16_224", "model_args": )" +
                         std::string(agrees) + "}")
                        .check(vit))
        << agrees;
  }
  vit.fc_norm = true;
  vit.global_pool = model::Pooling::avg;
  contradicts(R"({"architecture": "vit_tiny_patch16_224"})", vit,
              "(global_pool) says a norm before the pooling, the tensors show avg with an fc_norm");
  contradicts(R"({"architecture": "vit_tiny_patch16_224", "model_args": {"fc_norm": false}})", vit,
              "fc_norm says false, the tensors show true");
  vit = {};
  vit.distilled = true;
  contradicts(R"({"architecture": "vit_tiny_patch16_224"})", vit, "(dist_token) says false");
  vit = {};
  contradicts(R"({"architecture": "vit_base_patch16_224"})", vit,
              "vit_base_patch16_224 (embed_dim) says 768");
  contradicts(R"({"architecture": "vit_tiny_patch8_96"})", vit,
              "vit_tiny_patch8_96 (patch_size) says 8");
  EXPECT_NO_THROW(read(R"({"architecture": "vit_base_patch8_224",
                           "model_args": {"embed_dim": 192, "patch_size": 16, "num_heads": 3}})")
                      .check(vit));
  EXPECT_ERROR(
      read(R"({"architecture": "vit_tiny_patch16_224", "num_classes": 10})").check_classes(5),
      invalid_argument, "num_classes says 10", "5 rows");
  EXPECT_ERROR(read(R"({"model_type": "vit", "num_labels": 3})").check_classes(5), invalid_argument,
               "num_labels says 3", "5 rows");
  EXPECT_ERROR(read(R"({"model_type": "vit", "id2label": {"0": "a", "1": "b"}})").check_classes(3),
               invalid_argument, "id2label says 2", "3 rows");
  EXPECT_ERROR(read(R"({"architecture": "vit", "label_names": ["a", "b"]})").check_classes(3),
               invalid_argument, "label_names says 2", "3 rows");
}

}  // namespace hub_config_test
}  // namespace hydrascope::checkpoint
