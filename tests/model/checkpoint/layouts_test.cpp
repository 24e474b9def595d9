// Checkpoints with other names hold the same model, bit for bit.
#include "model/checkpoint/checkpoint.h"
#include "model/vision_transformer.h"
#include "tests/error_matchers.h"
#include "tests/model/checkpoint/other_names.h"
#include "tests/model/deterministic_weights.h"
#include "tests/model/small_vit.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>

namespace hydrascope::checkpoint {
namespace layouts_test {

namespace fs = std::filesystem;
using model::VisionTransformer;
using model::VitConfig;
using testing::Names;

VitConfig small() {
  // A width whose number of heads is assumed.
  VitConfig config = testing::small_vit({.dim = 192, .depth = 2});
  config.arch = "vit";
  return config;
}

VisionTransformer random_model(const VitConfig& config) {
  at::manual_seed(11);
  VisionTransformer model(config);
  const at::NoGradGuard no_grad;
  // Ones and zeros, as layer norms and biases begin, would hide a mix-up.
  for (at::Tensor& parameter : model->parameters()) parameter.normal_(0.0, 0.05);
  return model;
}

using Rename = std::function<std::vector<std::string>(const std::string&)>;

/// Writes the tensors under other names; several names share a tensor's rows.
void write_as(const VisionTransformer& model, const fs::path& file, const Rename& rename,
              const Metadata& metadata = {}) {
  std::vector<at::Tensor> kept;
  std::vector<std::pair<std::string, at::Tensor>> table;
  for (const auto& [name, tensor] : model::named_tensors(*model)) {
    const std::vector<std::string> names = rename(name);
    if (names.empty()) continue;
    const auto parts = tensor.detach().chunk(static_cast<std::int64_t>(names.size()));
    for (std::size_t i = 0; i < names.size(); ++i)
      table.emplace_back(names[i], parts[i].contiguous());
  }
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : table) {
    views.push_back({name,
                     Dtype::F32,
                     tensor.sizes().vec(),
                     {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  write_safetensors(file, views, metadata);
}

void write_as(const VisionTransformer& model, const fs::path& file, Names names,
              const std::string& prefix) {
  const bool distilled = model->config().distilled;
  write_as(model, file, [&](const std::string& name) -> std::vector<std::string> {
    const std::string head = testing::head_name(name, names, distilled);
    return head != name ? std::vector{head} : testing::names_in_file(name, names, prefix);
  });
}

at::Tensor logits_of(VisionTransformer& model, const at::Tensor& images) {
  const c10::InferenceMode inference;
  return model->forward(images);
}

void expect_equal_logits(VisionTransformer& saved, const fs::path& path,
                         const HeadOptions& head = {},
                         std::optional<model::PosInterp> interpolation = {}) {
  const VitConfig& config = saved->config();
  const Checkpoint file = Checkpoint::open(path);
  VitConfig deduced = file.deduce_config(head);
  deduced.arch = config.arch;
  // Names of Hugging Face mean its interpolation of positions at another size.
  VitConfig expected = config;
  expected.pos_interp = interpolation.value_or(file.layout() == "timm" ? model::PosInterp::timm
                                                                       : model::PosInterp::hf);
  EXPECT_EQ(model::to_json(deduced), model::to_json(expected));
  VisionTransformer loaded(deduced);
  const LoadReport report = file.load_into(*loaded, head);
  EXPECT_TRUE(report.initialised.empty());
  EXPECT_TRUE(report.unused.empty());
  at::manual_seed(5);
  const at::Tensor images = at::randn({2, 3, config.img_height, config.img_width});
  EXPECT_TRUE(at::equal(logits_of(saved, images), logits_of(loaded, images)));
}

constexpr const char* kHuggingFaceConfig =
    R"({"model_type": "vit", "num_attention_heads": 3, "layer_norm_eps": 1e-06})";

TEST(LayoutsTest, EveryLayoutGivesEqualLogits) {
  for (const bool distilled : {false, true}) {
    for (const bool bias : {true, false}) {
      VitConfig config = small();
      config.distilled = distilled;
      config.qkv_bias = bias;
      VisionTransformer model = random_model(config);
      if (distilled && !bias) continue;
      for (const auto& [names, layout] : {std::pair{Names::timm, "timm"},
                                          {Names::hugging_face_4, "Hugging Face 4"},
                                          {Names::hugging_face_5, "Hugging Face 5"}}) {
        for (const char* prefix : {"", distilled ? "deit." : "vit."}) {
          const testing::TemporaryFolder folder;
          SCOPED_TRACE(std::string(layout) + " " + prefix + (distilled ? " distilled" : ""));
          folder.write("config.json", kHuggingFaceConfig);
          write_as(model, folder.path() / "model.safetensors", names, prefix);
          expect_equal_logits(model, folder.path());
          EXPECT_EQ(Checkpoint::open(folder.path()).layout(), layout);
        }
      }
    }
  }
}

TEST(LayoutsTest, EasyCVsHydraModels) {
  const testing::TemporaryFolder folder;
  VitConfig config = small();
  config.no_embed_class = true;
  config.layer_scale = true;
  VisionTransformer model = random_model(config);
  const fs::path file = folder.path() / "a.safetensors";
  // The classifier is the backbone's own, or ClsHead's.
  for (const char* head : {"backbone.head.", "head.fc_cls."}) {
    write_as(model, file, [&](std::string name) -> std::vector<std::string> {
      if (name.starts_with("head.")) return {head + name.substr(5)};
      for (const auto& [ours, theirs] :
           {std::pair{"ls1.gamma", "gamma_1"}, {"ls2.gamma", "gamma_2"}}) {
        if (name.ends_with(ours)) name = name.substr(0, name.size() - 9) + theirs;
      }
      return {"backbone." + name};
    });
    expect_equal_logits(model, file);
    const Checkpoint checkpoint = Checkpoint::open(file);
    EXPECT_EQ(checkpoint.stripped(), std::vector<std::string>{"backbone."});
    ASSERT_EQ(checkpoint.notes().size(), 3U);
    EXPECT_NE(checkpoint.notes()[1].find("`attention`"), std::string::npos);
    EXPECT_NE(checkpoint.notes()[2].find("3 are assumed"), std::string::npos);
  }
}

TEST(LayoutsTest, HuggingFaceWithoutAConfigurationHasItsEps) {
  const testing::TemporaryFolder folder;
  VitConfig config = small();
  config.layer_norm_eps = 1e-12;
  VisionTransformer model = random_model(config);
  write_as(model, folder.path() / "a.safetensors", Names::hugging_face_4, "vit.");
  expect_equal_logits(model, folder.path() / "a.safetensors");
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_NE(checkpoint.notes().at(0).find("1e-12"), std::string::npos);
}

TEST(LayoutsTest, TheConfigurationSaysWhatTensorsDoNot) {
  const testing::TemporaryFolder folder;
  VitConfig config = small();
  config.num_heads = 8;
  config.layer_norm_eps = 1e-5;
  config.img_height = 16;
  config.img_width = 64;
  VisionTransformer model = random_model(config);
  write_as(model, folder.path() / "model.safetensors", Names::hugging_face_5, "");
  folder.write("config.json", R"({"model_type": "vit", "num_attention_heads": 8,
      "layer_norm_eps": 1e-5, "image_size": [16, 64], "hidden_size": 192})");
  expect_equal_logits(model, folder.path());
  folder.write("config.json", R"({"model_type": "vit", "hidden_size": 64})");
  EXPECT_ERROR(Checkpoint::open(folder.path()).deduce_config(), invalid_argument,
               "hidden_size says 64", "config.json");
}

TEST(LayoutsTest, TimmsConfigurationNamesTheArchitecture) {
  const testing::TemporaryFolder folder;
  VitConfig config = small();
  config.num_heads = 4;
  VisionTransformer model = random_model(config);
  write_as(model, folder.path() / "model.safetensors", Names::timm, "");
  folder.write("config.json", R"({"architecture": "vit_tiny_patch8_32",
      "model_args": {"num_heads": 4}, "pretrained_cfg": {"input_size": [3, 32, 32]}})");
  expect_equal_logits(model, folder.path());
  EXPECT_EQ(Checkpoint::open(folder.path()).deduce_config().arch, "vit_tiny_patch8_32");
}

TEST(LayoutsTest, OwnFilesAreNotBentByTheirNeighbours) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  save_checkpoint(folder.path() / "a.safetensors", *model, Dtype::F32, {});
  for (const char* neighbour :
       {R"({"model_type": "swin"})", "no JSON", R"({"model_type": "vit", "hidden_size": 768})"}) {
    folder.write("config.json", neighbour);
    expect_equal_logits(model, folder.path() / "a.safetensors");
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    EXPECT_EQ(checkpoint.hub().kind, HubConfig::Kind::none);
    EXPECT_NE(checkpoint.notes().at(0).find("is not used"), std::string::npos);
  }
}

TEST(LayoutsTest, NamesOfOtherClassesAreLeftOutWithANote) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());  // of 5 classes
  folder.write(
      "config.json",
      R"({"model_type": "vit", "hidden_size": 192, "id2label": {"0": "ant", "1": "bee"}})");
  const fs::path file = folder.path() / "a.safetensors";
  save_checkpoint(file, *model, Dtype::F32, {});
  const Checkpoint without = Checkpoint::open(file);
  EXPECT_EQ(without.label_lines(), "");
  ASSERT_EQ(without.notes().size(), 1U);
  EXPECT_NE(without.notes()[0].find("names 2 classes, the model has 5"), std::string::npos);
  // A file that names its own classes needs no others.
  save_checkpoint(file, *model, Dtype::F32,
                  {{std::string(kLabelNamesKey), to_label_names({"a", "b", "c", "d", "e"})}});
  EXPECT_TRUE(Checkpoint::open(file).notes().empty());
  folder.write("config.json",
               R"({"model_type": "vit", "hidden_size": 192, "id2label": {"0": "ant", "1": "bee",
                   "2": "cat", "3": "dog", "4": "eel"}})");
  save_checkpoint(file, *model, Dtype::F32, {});
  EXPECT_EQ(Checkpoint::open(file).label_lines(), "ant\nbee\ncat\ndog\neel\n");
  EXPECT_TRUE(Checkpoint::open(file).notes().empty());
}

TEST(LayoutsTest, ADistillationTokenWithoutAClassifierIsARegister) {
  const testing::TemporaryFolder folder;
  VitConfig config = small();
  config.reg_tokens = 1;
  VisionTransformer model = random_model(config);
  folder.write("config.json", kHuggingFaceConfig);
  write_as(model, folder.path() / "model.safetensors",
           [](const std::string& name) -> std::vector<std::string> {
             if (name == "reg_token") return {"deit.embeddings.distillation_token"};
             if (name.starts_with("head.")) return {"classifier." + name.substr(5)};
             return testing::names_in_file(name, Names::hugging_face_4, "deit.");
           });
  expect_equal_logits(model, folder.path());
}

TEST(LayoutsTest, DifferencesAreListedByTheFilesNames) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  const fs::path file = folder.path() / "a.safetensors";
  write_as(model, file, [](const std::string& name) -> std::vector<std::string> {
    if (name.starts_with("head.")) return {"classifier." + name.substr(5)};
    auto names = testing::names_in_file(name, Names::hugging_face_4, "module.vit.");
    if (name == "blocks.1.attn.qkv.weight") names[1] = "module.vit.surprise";
    if (name == "blocks.0.norm1.bias") return {};
    if (name == "blocks.0.attn.qkv.bias") return {"module.vit.layernorm.weight2"};
    return names;
  });
  const Checkpoint checkpoint = Checkpoint::open(file);
  VitConfig config = small();
  config.num_classes = 6;
  VisionTransformer target(config);
  EXPECT_ERROR(checkpoint.load_into(*target), failed, "5 missing",
               "module.vit.encoder.layer.0.layernorm_before.bias",
               "module.vit.encoder.layer.0.attention.attention.query.bias",
               "module.vit.encoder.layer.0.attention.attention.value.bias",
               "module.vit.encoder.layer.1.attention.attention.key.weight", "2 unexpected",
               "module.vit.surprise", "2 mismatched", "classifier.weight expected (6, 192)",
               "hydrascope train");
}

TEST(LayoutsTest, PartsThatDoNotFitTogetherAreShown) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  const fs::path whole = folder.path() / "whole.safetensors";
  const fs::path bent = folder.path() / "bent.safetensors";
  write_as(model, whole, Names::hugging_face_4, "");
  const SafetensorsFile file = SafetensorsFile::open(whole);
  std::vector<TensorView> views = file.tensors();
  for (TensorView& view : views) {
    if (view.name != "encoder.layer.0.attention.attention.value.weight") continue;
    view.shape = {64, 64};
    view.data = view.data.first(64 * 64 * sizeof(float));
  }
  write_safetensors(bent, views, {});
  VisionTransformer target(small());
  EXPECT_ERROR(Checkpoint::open(bent).load_into(*target), failed, "1 mismatched",
               "attention.query.weight + encoder.layer.0.attention.attention.key.weight",
               "expected (576, 192) found (192, 192) + (192, 192) + (64, 64)");
}

TEST(LayoutsTest, ANewClassifierOnlyWhenAskedFor) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  const fs::path file = folder.path() / "a.safetensors";
  write_as(model, file, [](const std::string& name) -> std::vector<std::string> {
    return name.starts_with("head.") ? std::vector<std::string>{} : std::vector{name};
  });
  const Checkpoint headless = Checkpoint::open(file);
  EXPECT_ERROR(headless.deduce_config(), failed, "head.weight is missing", "hydrascope train");
  EXPECT_ERROR(headless.deduce_config({.num_classes = {}, .may_be_random = true}), failed,
               "head.weight is missing", "`num_classes`", "`reset_head`");
  EXPECT_ERROR(headless.deduce_config({.num_classes = {}, .reset = true}), invalid_argument,
               "`reset_head`", "`num_classes` N");
  const HeadOptions seven{.num_classes = 7};
  VisionTransformer loaded(headless.deduce_config(seven));
  EXPECT_EQ(loaded->config().num_classes, 7);
  EXPECT_EQ(headless.load_into(*loaded, seven).initialised,
            (std::vector<std::string>{"head.weight", "head.bias"}));
  EXPECT_ERROR(headless.load_into(*loaded), failed, "2 missing: head.weight, head.bias");

  write_as(model, file, Names::timm, "");
  const Checkpoint whole = Checkpoint::open(file);
  expect_equal_logits(model, file, {.num_classes = 5});
  VisionTransformer resized(whole.deduce_config(seven));
  const LoadReport report = whole.load_into(*resized, seven);
  EXPECT_EQ(report.initialised, (std::vector<std::string>{"head.weight", "head.bias"}));
  EXPECT_EQ(report.unused, (std::vector<std::string>{"head.bias", "head.weight"}));
  const HeadOptions reset{.num_classes = {}, .reset = true};
  VisionTransformer again(whole.deduce_config(reset));
  EXPECT_EQ(again->config().num_classes, 5);
  EXPECT_EQ(whole.load_into(*again, reset).initialised.size(), 2U);
}

/// `plain` with one tensor more.
fs::path with_tensor(const fs::path& plain, const fs::path& file, const std::string& name) {
  const SafetensorsFile contents = SafetensorsFile::open(plain);
  std::vector<TensorView> views = contents.tensors();
  views.push_back(*contents.find("norm.weight"));
  views.back().name = name;
  write_safetensors(file, views, {});
  return file;
}

TEST(LayoutsTest, ATensorOfAnotherPartIsAnError) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  const fs::path plain = folder.path() / "plain.safetensors";
  write_as(model, plain, Names::timm, "");
  for (const char* name :
       {"blocks.0.attn.gate", "blocks.1.attn.foo.weight", "blocks.0.attn.inner_attn_ln.weight",
        "blocks.0.attn.rel_pos_h", "blocks.0.attn.logit_scale", "blocks.0.attn.norm.weight",
        "blocks.0.attn.q_norm.weight", "blocks.1.attn.rel_pos.mlp.fc1.weight", "blocks.1.pos_embed",
        "blocks.0.attn.lambda_k1", "blocks.0.attn.relative_position_bias_table2"}) {
    const Checkpoint file =
        Checkpoint::open(with_tensor(plain, folder.path() / "a.safetensors", name));
    VisionTransformer target(small());
    EXPECT_ERROR(file.load_into(*target), failed, "this program does not compute", name);
  }
  for (const char* name : {"norm_pre.weight", "blocks.0.ls3.gamma", "blocks.0.norm3.weight",
                           "blocks.0.mlp.w12.weight", "patch_embed.norm.weight", "register_tokens",
                           "decoder_embed.weight", "head.fc.weight", "pre_logits.fc.weight"}) {
    const Checkpoint file =
        Checkpoint::open(with_tensor(plain, folder.path() / "a.safetensors", name));
    EXPECT_ERROR(file.deduce_config(), unsupported_format, "this program does not compute", name);
  }
  for (const char* name : {"mask_token", "blocks.0.attn.relative_position_index"})
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

TEST(LayoutsTest, TwoTensorsForOneAreNamed) {
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

TEST(LayoutsTest, BareFilesThatTwoNetworksHaveAreRefused) {
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

TEST(LayoutsTest, ANameInTheFileIsCheckedLikeAConfiguration) {
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
  EXPECT_ERROR(deduce({{"args.model", "vit_base_patch16_rpn_224"}}), unsupported_format,
               "post-norm blocks", "a.safetensors");
  EXPECT_ERROR(deduce({{"arch", "mine"}}), unsupported_format, "'mine' is not known");
  EXPECT_ERROR(deduce({{"arch", "vit_base_patch8_224"}}), invalid_argument,
               "(embed_dim) says 768, the tensors show 192");
  EXPECT_ERROR(deduce({{"arch", "vit_tiny_patch8_32"}, {"args.gp", "avg"}}), invalid_argument,
               "global_pool says avg with an fc_norm");
}

TEST(LayoutsTest, AnotherAttentionNeedsNotWhatTheOneBeforeHad) {
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

TEST(LayoutsTest, ConfigurationsThatContradictTheWeightsAreErrors) {
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

TEST(LayoutsTest, TheConfigurationIsReadBeforeNamesAreJudged) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  write_as(model, folder.path() / "model.safetensors", [](const std::string& name) {
    return std::vector<std::string>{"vision_model." + name.substr(0, name.size() - 2)};
  });
  for (const auto& [config, words] : {
           std::pair{
               R"({"model_type": "dinov2", "architectures": ["Dinov2ForImageClassification"]})",
               "model_type 'dinov2': this program reads vit and deit of Hugging Face"},
           {R"({"model_type": "siglip"})", "model_type 'siglip'"},
           {R"({"architecture": "swin_tiny_patch4_window7_224"})", "swin_transformer"},
       }) {
    folder.write("config.json", config);
    EXPECT_ERROR(Checkpoint::open(folder.path()), unsupported_format, words, "config.json");
  }
  folder.write("config.json", R"({"architecture": "my_tower"})");
  EXPECT_ERROR(Checkpoint::open(folder.path()), unsupported_format, "'my_tower' is not known");
}

TEST(LayoutsTest, PoolingIsWhatTheConfigurationSays) {
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

TEST(LayoutsTest, ConvertingKeepsEveryBit) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  folder.write("config.json", kHuggingFaceConfig);
  write_as(model, folder.path() / "model.safetensors", Names::hugging_face_4, "vit.");
  const Checkpoint source = Checkpoint::open(folder.path());
  VisionTransformer loaded(source.deduce_config());
  const LoadReport report = source.load_into(*loaded);
  const fs::path out = folder.path() / "out" / "a.safetensors";
  fs::create_directories(out.parent_path());
  convert_checkpoint(out, source, *loaded, report, {}, {{"license", "mine"}});
  expect_equal_logits(model, out, {}, model::PosInterp::hf);
  const Checkpoint converted = Checkpoint::open(out);
  EXPECT_TRUE(converted.is_own());
  EXPECT_EQ(converted.metadata("license"), "mine");
  EXPECT_EQ(converted.metadata("attention"), "softmax");
  EXPECT_EQ(converted.layout(), "timm");

  convert_checkpoint(out, source, *loaded, report, Dtype::F16, {});
  const Checkpoint rounded = Checkpoint::open(out);
  for (const TensorView& view : rounded.tensors()) EXPECT_EQ(view.dtype, Dtype::F16);
}

/// The weights of `seed`, as scripts/make/make_vit_checkpoints.py made them.
void expect_deterministic(const VisionTransformer& model, std::uint64_t seed) {
  for (const auto& [name, tensor] : model::named_tensors(*model)) {
    std::vector<float> values(static_cast<std::size_t>(tensor.numel()));
    testing::fill_deterministic(name, tensor.sizes(), values, seed);
    const at::Tensor expected =
        at::from_blob(values.data(), tensor.sizes(), at::kFloat).to(at::kHalf).to(at::kFloat);
    EXPECT_TRUE(at::equal(tensor, expected)) << name;
  }
}

TEST(TorchCheckpointTest, CheckpointsOfTraining) {
  const fs::path folder = fs::path(HYDRASCOPE_SOURCE_DIR) / "tests/data/checkpoints";
  const auto load = [](const Checkpoint& checkpoint) {
    VisionTransformer model(checkpoint.deduce_config());
    checkpoint.load_into(*model);
    return model;
  };
  const Checkpoint plain = Checkpoint::open(folder / "timm_training.pth");
  EXPECT_EQ(plain.format(), "torch_zip");
  EXPECT_EQ(plain.entry(), "state_dict");
  EXPECT_EQ(plain.stripped(), std::vector<std::string>{"module."});
  EXPECT_FALSE(plain.is_own());
  ASSERT_EQ(plain.notes().size(), 3U);
  EXPECT_NE(plain.notes()[1].find("`use_ema`"), std::string::npos);
  expect_deterministic(load(plain), 1);

  const Checkpoint averaged = Checkpoint::open(folder / "timm_training.pth", {.use_ema = true});
  EXPECT_EQ(averaged.entry(), "state_dict_ema");
  EXPECT_EQ(averaged.notes().size(), 2U);
  expect_deterministic(load(averaged), 2);

  const Checkpoint legacy = Checkpoint::open(folder / "deit_legacy.pth");
  EXPECT_EQ(legacy.format(), "torch_legacy");
  EXPECT_EQ(legacy.entry(), "model");
  expect_deterministic(load(legacy), 1);
  EXPECT_ERROR(Checkpoint::open(folder / "deit_legacy.pth", {.use_ema = true}), invalid_argument,
               "averaged");
  EXPECT_ERROR(Checkpoint::open(folder), invalid_argument, "2 files of weights",
               "deit_legacy.pth, timm_training.pth");
}

TEST(TorchCheckpointTest, AFolderMayHoldATorchFile) {
  const fs::path source = fs::path(HYDRASCOPE_SOURCE_DIR) / "tests/data/checkpoints";
  const testing::TemporaryFolder folder;
  fs::copy(source / "deit_legacy.pth", folder.path() / "best.pth");
  EXPECT_EQ(Checkpoint::open(folder.path()).file().filename(), "best.pth");
  fs::copy(source / "timm_training.pth", folder.path() / "pytorch_model.bin");
  EXPECT_EQ(Checkpoint::open(folder.path()).file().filename(), "pytorch_model.bin");
}

/// The sizes of ViT-B: 86 million parameters under three namings.
TEST(SlowLayoutsTest, ViTBGivesEqualLogitsUnderAllNames) {
  VitConfig config;
  config.arch = "vit";
  config.embed_dim = 768;
  config.num_heads = 12;
  VisionTransformer model = random_model(config);
  for (const Names names : {Names::timm, Names::hugging_face_4, Names::hugging_face_5}) {
    const testing::TemporaryFolder folder;
    folder.write("config.json",
                 R"({"model_type": "vit", "num_attention_heads": 12, "layer_norm_eps": 1e-06})");
    write_as(model, folder.path() / "model.safetensors", names, names == Names::timm ? "" : "vit.");
    expect_equal_logits(model, folder.path());
  }
}

}  // namespace layouts_test
}  // namespace hydrascope::checkpoint
