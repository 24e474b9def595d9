// Files that hold more than a model computes, less than a name says, or another thing than what lies beside
// them: each is refused, or the file counts.
#include "model/checkpoint/checkpoint.h"
#include "model/vision_transformer.h"
#include "tests/error_matchers.h"
#include "tests/model/checkpoint/layouts.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hydrascope::checkpoint {
namespace layouts_test {

/// `plain` with one tensor more.
fs::path with_tensor(const fs::path& plain, const fs::path& file, const std::string& name) {
  const SafetensorsFile contents = SafetensorsFile::open(plain);
  std::vector<TensorView> views = contents.tensors();
  views.push_back(*contents.find("norm.weight"));
  views.back().name = name;
  write_safetensors(file, views, {});
  return file;
}

TEST(ContradictionsTest, ATensorOfAnotherPartIsAnError) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  const fs::path plain = folder.path() / "plain.safetensors";
  write_as(model, plain, Names::timm, "");
  for (const char* name :
       {"blocks.0.attn.gate", "blocks.1.attn.foo.weight", "blocks.0.attn.inner_attn_ln.weight",
        "blocks.0.attn.rel_pos_h", "blocks.0.attn.logit_scale", "blocks.0.attn.q_norm.weight",
        "blocks.1.attn.rel_pos.mlp.fc1.weight", "blocks.1.pos_embed", "blocks.0.attn.lambda_k1",
        "blocks.0.attn.relative_position_bias_table2"}) {
    const Checkpoint file =
        Checkpoint::open(with_tensor(plain, folder.path() / "a.safetensors", name));
    VisionTransformer target(small());
    EXPECT_ERROR(file.load_into(*target), failed, "this program does not compute", name);
  }
  for (const char* name : {"blocks.0.ls3.gamma", "blocks.0.norm3.weight", "patch_embed.norm.weight",
                           "head.fc.weight", "pre_logits.fc.weight"}) {
    const Checkpoint file =
        Checkpoint::open(with_tensor(plain, folder.path() / "a.safetensors", name));
    EXPECT_ERROR(file.deduce_config(), unsupported_format, "this program does not compute", name);
  }
  EXPECT_ERROR(Checkpoint::open(
                   with_tensor(plain, folder.path() / "a.safetensors", "blocks.0.mlp.w12.weight")),
               failed, "stand both for blocks.0.mlp.fc1.weight");
  // Parts that this program computes in networks which have another activation as well.
  for (const char* name : {"norm_pre.weight", "attn_pool.latent", "blocks.0.attn.norm.weight"}) {
    const Checkpoint file =
        Checkpoint::open(with_tensor(plain, folder.path() / "a.safetensors", name));
    EXPECT_ERROR(file.deduce_config(), failed, "activation", "config.json");
  }
  for (const char* name :
       {"mask_token", "blocks.0.attn.relative_position_index", "decoder_embed.weight"})
    expect_equal_logits(model, with_tensor(plain, folder.path() / "a.safetensors", name));
  // Rotations, which a plain ViT lacks, and a layer before the classifier, which a new one may replace.
  const fs::path other = folder.path() / "a.safetensors";
  for (const char* name : {"rope.periods", "rope.bands"}) {
    VisionTransformer target(small());
    EXPECT_ERROR(Checkpoint::open(with_tensor(plain, other, name)).load_into(*target), failed,
                 "this program does not compute", name);
    VitConfig turned = small();
    turned.rel_pos.assign(static_cast<std::size_t>(turned.depth), {"rope", {}});
    VisionTransformer of_rotations(turned);
    Checkpoint file = Checkpoint::open(other);
    file.complete(turned);
    EXPECT_NO_THROW(file.load_into(*of_rotations));
  }
  const HeadOptions reset{.num_classes = {}, .reset = true};
  const Checkpoint file = Checkpoint::open(with_tensor(plain, other, "pre_logits.fc.weight"));
  VisionTransformer fresh(file.deduce_config(reset));
  EXPECT_EQ(file.load_into(*fresh, reset).unused.size(), 3U);
}

TEST(ContradictionsTest, TwoTensorsForOneAreNamed) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  const fs::path plain = folder.path() / "plain.safetensors";
  write_as(model, plain, Names::timm, "");
  const fs::path file = with_tensor(plain, folder.path() / "a.safetensors", "classifier.bias");
  EXPECT_ERROR(Checkpoint::open(file), failed, "classifier.bias", "head.bias",
               "stand both for head.bias");
  with_tensor(plain, file, "blocks.0.attn.q_bias");
  EXPECT_ERROR(Checkpoint::open(file), failed, "blocks.0.attn.q_bias", "blocks.0.attn.qkv.bias",
               "stand both for");
}

TEST(ContradictionsTest, BareFilesThatTwoNetworksHaveAreRefused) {
  const testing::TemporaryFolder folder;
  const fs::path file = folder.path() / "model.safetensors";
  VitConfig config = small();
  config.no_embed_class = true;
  config.layer_scale = true;
  VisionTransformer model = random_model(config);
  write_as(model, file, Names::timm, "");
  expect_equal_logits(model, file);  // timm's DeiT-III
  write_as(model, file, [](std::string name) -> std::vector<std::string> {
    const std::size_t scale = name.find(".ls");
    if (scale != std::string::npos) name = name.substr(0, scale) + ".gamma_" + name[scale + 3];
    return {name};
  });
  EXPECT_ERROR(Checkpoint::open(file).deduce_config(), failed, "DeiT-III or a RoPE-ViT",
               "`model` NAME");
  folder.write("config.json", R"({"architecture": "vit_tiny_patch8_32"})");
  EXPECT_NO_THROW(Checkpoint::open(file).deduce_config());

  // timm's relative positions of unusual widths are for 240 or 256 pixels, which no tensor shows.
  VitConfig sizeless = small();
  sizeless.embed_dim = 256;
  sizeless.num_heads = 4;
  sizeless.layer_scale = true;
  sizeless.pos_embed = model::PosEmbed::none;
  sizeless.rel_pos.assign(2, {"relbias", {{"table", "mlp"}, {"hidden", "16"}}});
  VisionTransformer relative = random_model(sizeless);
  std::filesystem::remove(folder.path() / "config.json");
  write_as(relative, file, Names::timm, "");
  EXPECT_ERROR(Checkpoint::open(file).deduce_config(), failed, "which size of pictures", "256");
  folder.write("config.json",
               R"({"architecture": "vit", "pretrained_cfg": {"input_size": [3, 32, 32]}})");
  EXPECT_EQ(Checkpoint::open(file).deduce_config().img_height, 32);
}

TEST(ContradictionsTest, ANameInTheFileIsCheckedLikeAConfiguration) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  const fs::path plain = folder.path() / "plain.safetensors";
  write_as(model, plain, Names::timm, "");
  const SafetensorsFile contents = SafetensorsFile::open(plain);
  const auto deduce = [&](const Metadata& metadata) {
    const fs::path file = folder.path() / "a.safetensors";
    write_safetensors(file, contents.tensors(), metadata);
    return Checkpoint::open(file).deduce_config();
  };
  EXPECT_EQ(deduce({{"args.model", "vit_tiny_patch8_32"}}).arch, "vit_tiny_patch8_32");
  EXPECT_EQ(
      deduce({{"arch", "vit_tiny_patch8_32"}, {"args.model_kwargs.num_heads", "6"}}).num_heads, 6);
  EXPECT_ERROR(deduce({{"args.model", "vit_pwee_patch16_reg1_gap_256"}}), unsupported_format,
               "parallel blocks", "a.safetensors");
  EXPECT_ERROR(deduce({{"arch", "mine"}}), unsupported_format, "'mine' is not known");
  EXPECT_ERROR(deduce({{"arch", "vit_base_patch8_224"}}), invalid_argument,
               "(embed_dim) says 768, the tensors show 192");
  EXPECT_ERROR(deduce({{"arch", "vit_tiny_patch8_32"}, {"args.gp", "avg"}}), invalid_argument,
               "global_pool says avg with an fc_norm");
}

TEST(ContradictionsTest, AnotherAttentionNeedsNotWhatTheOneBeforeHad) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  const fs::path plain = folder.path() / "plain.safetensors";
  write_as(model, plain, Names::timm, "");
  VitConfig config = small();
  config.attention.resize(2);
  config.attention[1] = {"hydra", {}};
  VisionTransformer hydra(config);
  const std::string left = "blocks.1.attn.logit_scale";
  const fs::path file = folder.path() / "a.safetensors";
  EXPECT_EQ(Checkpoint::open(with_tensor(plain, file, left)).load_into(*hydra).unused,
            std::vector<std::string>{left});
  // In the layer that keeps its attention it is one.
  EXPECT_ERROR(
      Checkpoint::open(with_tensor(plain, file, "blocks.0.attn.logit_scale")).load_into(*hydra),
      failed, "blocks.0.attn.logit_scale");
  // As is a tensor of a mechanism that our own file should have and has not.
  config.attention[1] = {"hedgehog", {}};
  VisionTransformer hedgehog(config);
  save_checkpoint(file, *hedgehog, Dtype::F32, {});
  EXPECT_TRUE(Checkpoint::open(file).load_into(*hedgehog).initialised.empty());
  EXPECT_FALSE(Checkpoint::open(file).load_into(*model).unused.empty());
  const SafetensorsFile whole = SafetensorsFile::open(file);
  std::vector<TensorView> views = whole.tensors();
  std::erase_if(views, [](const TensorView& view) { return is_mechanism_tensor(view.name); });
  ASSERT_LT(views.size(), whole.tensors().size());
  const fs::path torn = folder.path() / "torn.safetensors";
  write_safetensors(torn, views, whole.metadata());
  EXPECT_ERROR(Checkpoint::open(torn).load_into(*hedgehog), failed, "missing: blocks.1.attn.");
  EXPECT_FALSE(Checkpoint::open(plain).load_into(*hedgehog).initialised.empty());
}

TEST(ContradictionsTest, ConfigurationsThatContradictTheWeightsAreErrors) {
  const testing::TemporaryFolder folder;
  VisionTransformer model =
      random_model(small());  // of 192 features, patch 8, 32 pixels, 5 classes
  write_as(model, folder.path() / "model.safetensors", Names::timm, "");
  for (const auto& [config, words] : {
           std::pair{R"({"architecture": "vit_tiny_patch8_32", "num_features": 768})",
                     "num_features says 768"},
           {R"({"architecture": "vit_base_patch8_224"})",
            "(embed_dim) says 768, the tensors show 192"},
           {R"({"architecture": "vit_tiny_patch16_224"})",
            "(patch_size) says 16, the tensors show 8"},
           {R"({"architecture": "vit_tiny_patch8_32", "num_classes": 1000})",
            "num_classes says 1000"},
           {R"({"architecture": "vit", "label_names": ["a"]})", "label_names says 1"},
           {R"({"model_type": "vit", "image_size": 96})", "image_size says 96x96"},
           {R"({"model_type": "vit", "id2label": {"0": "ant", "1": "bee"}})", "id2label says 2"},
       }) {
    folder.write("config.json", config);
    EXPECT_ERROR(Checkpoint::open(folder.path()).deduce_config(), invalid_argument, words);
  }
  // A new classifier is of another size.
  folder.write("config.json", R"({"architecture": "vit_tiny_patch8_32", "num_classes": 1000})");
  EXPECT_EQ(Checkpoint::open(folder.path()).deduce_config({.num_classes = 7}).num_classes, 7);
  folder.write("config.json", R"({"architecture": "mine", "model_args": {"num_heads": 3}})");
  EXPECT_ERROR(Checkpoint::open(folder.path()).deduce_config(), unsupported_format,
               "'mine' is not known");
  folder.write("config.json", R"({"architecture": "vit", "model_args": {"num_heads": 4}})");
  Checkpoint file = Checkpoint::open(folder.path());
  VitConfig named = small();
  EXPECT_ERROR(file.complete(named), invalid_argument, "3 attention heads", "says 4");
}

/// `--model NAME` says the activation and the order of norms; a configuration beside the file may say others.
TEST(ContradictionsTest, ANamedArchitectureHasTheActivationOfTheFile) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  write_as(model, folder.path() / "model.safetensors", Names::timm, "");
  const auto complete = [&](const std::string& arguments) {
    folder.write("config.json",
                 R"({"architecture": "vit", "model_args": {"num_heads": 3)" + arguments + "}}");
    Checkpoint file = Checkpoint::open(folder.path());
    VitConfig named = small();
    file.complete(named);
  };
  EXPECT_NO_THROW(complete(""));
  EXPECT_NO_THROW(complete(R"(, "act_layer": "gelu")"));
  for (const char* other : {"quick_gelu", "gelu_tanh"})
    EXPECT_ERROR(complete(R"(, "act_layer": ")" + std::string(other) + "\""), invalid_argument,
                 "another activation", "config.json");
}

TEST(ContradictionsTest, TheConfigurationIsReadBeforeNamesAreJudged) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  write_as(model, folder.path() / "model.safetensors", [](const std::string& name) {
    return std::vector<std::string>{"vision_model." + name.substr(0, name.size() - 2)};
  });
  for (const auto& [config, words] : {
           std::pair{R"({"model_type": "swinv2", "architectures": ["Swinv2Model"]})",
                     "model_type 'swinv2' is not computed"},
           {R"({"model_type": "siglip2"})", "model_type 'siglip2'"},
           {R"({"architecture": "swin_tiny_patch4_window7_224"})", "swin_transformer"},
       }) {
    folder.write("config.json", config);
    EXPECT_ERROR(Checkpoint::open(folder.path()), unsupported_format, words, "config.json");
  }
  folder.write("config.json", R"({"architecture": "my_tower"})");
  EXPECT_ERROR(Checkpoint::open(folder.path()), unsupported_format, "'my_tower' is not known");
}

TEST(ContradictionsTest, PoolingIsWhatTheConfigurationSays) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  // timm's fc_norm behind the class token is the norm before it.
  write_as(model, folder.path() / "model.safetensors", [](const std::string& name) {
    return std::vector<std::string>{name.starts_with("norm.") ? "fc_" + name : name};
  });
  folder.write("config.json", R"({"architecture": "vit_tiny_patch8_32", "global_pool": "token",
                                  "model_args": {"fc_norm": true, "global_pool": "token"}})");
  expect_equal_logits(model, folder.path());
  folder.write("config.json", R"({"architecture": "vit_tiny_patch8_32", "global_pool": "avg"})");
  const VitConfig mean = Checkpoint::open(folder.path()).deduce_config();
  EXPECT_EQ(mean.global_pool, model::Pooling::avg);
  EXPECT_TRUE(mean.fc_norm);
}

}  // namespace layouts_test
}  // namespace hydrascope::checkpoint
