// Checkpoints with other names hold the same model, bit for bit.
#include "tests/model/checkpoint/layouts.h"

#include "model/checkpoint/checkpoint.h"
#include "model/vision_transformer.h"
#include "tests/error_matchers.h"
#include "tests/model/deterministic_weights.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace hydrascope::checkpoint {
namespace layouts_test {

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
    EXPECT_NE(checkpoint.notes()[1].find("`attn`"), std::string::npos);
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
  VisionTransformer tower(headless.deduce_config());
  EXPECT_EQ(tower->config().num_classes, 0);
  EXPECT_TRUE(headless.load_into(*tower).initialised.empty());
  folder.write("config.json", R"({"architecture": "vit_tiny_patch8_32", "num_classes": 1000})");
  const Checkpoint said = Checkpoint::open(file);
  EXPECT_EQ(said.deduce_config().num_classes, 0);
  ASSERT_FALSE(said.notes().empty());
  EXPECT_NE(said.notes().back().find("says 1000 classes, the weights have no classifier"),
            std::string::npos);
  fs::remove(folder.path() / "config.json");
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

/// The weights of `seed`, as scripts/make/make_torch_fixtures.py made them.
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
