#include "model/checkpoint/checkpoint.h"

#include "kernels/input_file.h"
#include "model/config/architectures.h"
#include "model/vision_transformer.h"
#include "tests/cases.h"
#include "tests/error_matchers.h"
#include "tests/model/small_vit.h"
#include "tests/model/tensor_match.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::checkpoint {
namespace checkpoint_test {

namespace fs = std::filesystem;
using model::VisionTransformer;
using model::VitConfig;

/// A model of a width whose number of heads is assumed.
VitConfig small() { return testing::small_vit({.dim = 192, .depth = 2}); }

/// A file's tensors, to be changed and written again.
struct Contents {
  std::vector<std::string> bytes;
  std::vector<TensorView> views;

  Contents() { bytes.reserve(1000); }
  explicit Contents(const VisionTransformer& model) : Contents() {
    for (const auto& [key, tensor] : model::named_tensors(*model)) add(key, tensor);
  }
  void add(const std::string& key, const at::Tensor& tensor) {
    const at::Tensor value = tensor.detach().to(at::kFloat).contiguous();
    bytes.emplace_back(static_cast<const char*>(value.const_data_ptr()), value.nbytes());
    views.push_back({key, Dtype::F32, value.sizes().vec(), std::as_bytes(std::span(bytes.back()))});
  }
  void remove(const std::string& key) {
    std::erase_if(views, [&](const TensorView& view) { return view.name == key; });
  }
  void rename(const std::string& from, const std::string& to) {
    for (TensorView& view : views) {
      if (view.name == from) view.name = to;
    }
  }
  fs::path write(const fs::path& file, const Metadata& metadata = {}) const {
    write_safetensors(file, views, metadata);
    return file;
  }
};

TEST(CheckpointTest, SavedModelLoadsAsItWas) {
  const testing::TemporaryFolder folder;
  for (const bool distilled : {false, true}) {
    VitConfig config = small();
    config.distilled = distilled;
    config.num_heads = 4;
    config.layer_scale = true;
    config.reg_tokens = 3;
    config.layer_norm_eps = 1e-12;
    at::manual_seed(3);
    VisionTransformer saved(config);
    save_checkpoint(folder.path() / "a.safetensors", *saved, Dtype::F32, {{"license", "mine"}});
    const Checkpoint file = Checkpoint::open(folder.path() / "a.safetensors");
    EXPECT_EQ(file.metadata("license"), "mine");
    EXPECT_EQ(file.metadata("format"), "pt");
    EXPECT_EQ(file.layout(), "timm");
    EXPECT_EQ(file.deduce_config(), config);
    VisionTransformer loaded(file.deduce_config());
    file.load_into(*loaded);
    const c10::InferenceMode inference;
    const at::Tensor images = at::randn({1, 3, 32, 32});
    EXPECT_TRUE(at::equal(saved->forward(images), loaded->forward(images)));
  }
}

TEST(CheckpointTest, LoadsBlockByBlockIntoUntouchedMemory) {
  const testing::TemporaryFolder folder;
  at::manual_seed(3);
  VisionTransformer saved(small());
  save_checkpoint(folder.path() / "a.safetensors", *saved, Dtype::F32, {});
  const Checkpoint file = Checkpoint::open(folder.path() / "a.safetensors");
  VisionTransformer loaded(small(), model::Initialisation::for_loading);
  const Loading loading = file.start_loading(*loaded);
  EXPECT_TRUE(loading.report().initialised.empty());
  model::fill(*loaded, loading.weights(), "", model::is_outside_blocks);
  for (std::int64_t layer = small().depth - 1; layer >= 0; --layer)
    model::fill(loaded->block(layer), loading.weights(), model::block_prefix(layer));
  // Pages that were given back are read from the file again.
  VisionTransformer again(small());
  file.load_into(*again);
  const auto expected = model::named_tensors(*saved);
  const auto found = model::named_tensors(*loaded);
  const auto twice = model::named_tensors(*again);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::equal(found[i].second, expected[i].second)) << expected[i].first;
    EXPECT_TRUE(at::equal(twice[i].second, expected[i].second)) << expected[i].first;
  }
}

TEST(CheckpointTest, HalfPrecisionRoundsAndNothingElse) {
  const testing::TemporaryFolder folder;
  VisionTransformer model(small());
  for (const auto& [dtype, type] :
       {std::pair{Dtype::F16, at::kHalf}, {Dtype::BF16, at::kBFloat16}}) {
    save_checkpoint(folder.path() / "a.safetensors", *model, dtype, {});
    VisionTransformer loaded(small());
    Checkpoint::open(folder.path() / "a.safetensors").load_into(*loaded);
    const auto before = model::named_tensors(*model);
    const auto after = model::named_tensors(*loaded);
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(at::equal(after[i].second, before[i].second.to(type).to(at::kFloat)))
          << before[i].first;
    }
  }
}

TEST(CheckpointTest, LayersThatJoinShareOrLeaveOtherwiseAreSavedAsTheyAre) {
  const testing::TemporaryFolder folder;
  const std::vector<std::function<void(VitConfig&)>> kinds{
      [](VitConfig& config) { config.residual = model::Residual::reversible; },
      [](VitConfig& config) { config.residual = model::Residual::gru; },
      [](VitConfig& config) { config.share_blocks = 1; },
      [](VitConfig& config) { config.share_blocks = config.depth, config.step_embed = true; },
      [](VitConfig& config) { config.halting = true, config.gate_center = 2; }};
  const at::Tensor images = at::randn({2, 3, 32, 32});
  for (const auto& change : kinds) {
    VitConfig config = small();
    config.attention.clear();
    config.num_heads = 3;
    change(config);
    at::manual_seed(3);
    VisionTransformer saved(config);
    saved->eval();
    save_checkpoint(folder.path() / "a.safetensors", *saved, Dtype::F32, {});
    const Checkpoint file = Checkpoint::open(folder.path() / "a.safetensors");
    ASSERT_EQ(file.deduce_config(), config);
    VisionTransformer loaded(file.deduce_config(), model::Initialisation::for_loading);
    loaded->eval();
    file.load_into(*loaded);
    const c10::InferenceMode inference;
    EXPECT_TRUE(at::equal(saved->forward(images), loaded->forward(images)));
    if (config.share_blocks != 1) continue;
    // Any number of steps has the same tensors; a file with other blocks than it says is damaged.
    set_steps(config, 5);
    VisionTransformer longer(config);
    EXPECT_TRUE(file.load_into(*longer).initialised.empty());
    EXPECT_FALSE(at::equal(longer->forward(images), loaded->forward(images)));
    config = small();
    config.attention.clear();
    config.num_heads = 3;
    VisionTransformer plain(config);
    Contents contents(plain);
    config.share_blocks = 1;
    const Checkpoint damaged = Checkpoint::open(contents.write(
        folder.path() / "b.safetensors",
        {{std::string(kSchemaKey), "1"}, {std::string(kConfigKey), to_json(config)}}));
    EXPECT_ERROR(damaged.deduce_config(), failed, "share_blocks says 1");
  }
}

TEST(CheckpointTest, AStopEndsTheMakingOfAModel) {
  const testing::TemporaryFolder folder;
  const VisionTransformer model(small());
  g_stop_signal = SIGTERM;
  EXPECT_THROW(VisionTransformer{small()}, Stopped);
  const fs::path file = folder.path() / "a.safetensors";
  EXPECT_THROW(save_checkpoint(file, *model, Dtype::F32, {}, /*until_stopped=*/true), Stopped);
  EXPECT_TRUE(fs::is_empty(folder.path()));
  save_checkpoint(file, *model, Dtype::F32, {});  // the state of a run that was stopped
  g_stop_signal = 0;
}

TEST(CheckpointTest, NonsenseUnderOwnKeysIsRefused) {
  const testing::TemporaryFolder folder;
  const Contents contents{VisionTransformer(small())};
  const auto open = [&](const std::string& key, const std::string& value) {
    Metadata metadata{{std::string(kSchemaKey), "1"},
                      {"img_size", "32x16"},
                      {"num_classes", "0"},
                      {"labels", "imagenet1k"}};
    metadata[key] = value;
    return Checkpoint::open(contents.write(folder.path() / "a.safetensors", metadata));
  };
  EXPECT_TRUE(open("img_size", "224").is_own());
  const std::vector<std::string> keys{std::string(kSchemaKey),
                                      "img_size",
                                      "num_classes",
                                      "labels",
                                      "arch",
                                      "attention",
                                      "transform"};
  for (const std::string& key : keys)
    for (const char* value : {"", "-1", "+1", "1e999", "999999999999999999999", "2 ", "1x", "?"})
      EXPECT_ERROR(open(key, value), unsupported_format, (key + ": expected ").c_str(),
                   ("found \"" + std::string(value) + '"').c_str(), "a.safetensors");
  EXPECT_ERROR(open(keys.front(), "2"), unsupported_format, "expected \"1\"");
  EXPECT_ERROR(open("img_size", "224x0"), unsupported_format, "expected N or HxW");
  EXPECT_ERROR(open("arch", "junk"), unsupported_format, "arch: expected");
  EXPECT_ERROR(open("transform", "{}"), unsupported_format, "transform: expected");
  EXPECT_ERROR(open("attention", "junk").deduce_config(), unsupported_format, "attention: unknown",
               "a.safetensors");
  EXPECT_TRUE(open("arch", "deit_tiny_patch16_224").is_own());
  const auto beside_config = [&](const std::string& key, const std::string& value) {
    const Metadata metadata{{std::string(kSchemaKey), "1"},
                            {std::string(kConfigKey), model::to_json(small())},
                            {key, value}};
    return Checkpoint::open(contents.write(folder.path() / "c.safetensors", metadata))
        .deduce_config();
  };
  EXPECT_EQ(beside_config("arch", small().arch).depth, small().depth);
  EXPECT_ERROR(beside_config("arch", "junk"), unsupported_format, "arch: expected", "junk");
  EXPECT_ERROR(beside_config("num_classes", "77"), unsupported_format, "num_classes: expected");
  EXPECT_ERROR(beside_config("img_size", "32x48"), unsupported_format, "img_size: expected \"32\"");
  EXPECT_ERROR(beside_config("attention", "hydra"), unsupported_format, "attention: says");
  // Under the same words other programs may mean other things.
  EXPECT_FALSE(Checkpoint::open(contents.write(folder.path() / "b.safetensors",
                                               {{"img_size", "-1"}, {"labels", ""}}))
                   .is_own());
}

TEST(CheckpointTest, AFileThatDoesNotFitChangesNothing) {
  const testing::TemporaryFolder folder;
  Contents contents{VisionTransformer(small())};
  contents.remove("norm.bias");
  const Checkpoint file = Checkpoint::open(contents.write(folder.path() / "a.safetensors"));
  VisionTransformer model(small());
  const at::Tensor before = model->parameters()[0].clone();
  EXPECT_ERROR(file.load_into(*model), failed);
  EXPECT_TRUE(at::equal(before, model->parameters()[0]));
}

TEST(CheckpointTest, DeducesFromShapesAloneOrSaysWhatItCannot) {
  const testing::TemporaryFolder folder;
  for (const testing::Json& row : testing::read_cases("model/checkpoint/shapes.jsonl")) {
    testing::expect_case(row, [&] {
      auto fields = testing::Json::parse(model::to_json(small()));
      fields["arch"] = "vit";
      fields.merge_patch(row.value("model", testing::Json::object()));
      const VitConfig config = model::config_from_json(fields.dump(), "row");
      Contents contents{VisionTransformer(config)};
      for (const std::string name : row.value("remove", testing::Json::array()))
        contents.remove(name);
      for (const auto& [name, shape] : testing::members(row, "add"))
        contents.add(name, at::zeros(shape.get<std::vector<std::int64_t>>()));
      for (const auto& [from, to] : testing::members(row, "rename")) contents.rename(from, to);
      const Checkpoint file = Checkpoint::open(contents.write(folder.path() / "a.safetensors"));
      const VitConfig deduced = row.value("load", "") == "small" ? small() : file.deduce_config();
      if (!row.contains("load")) {
        EXPECT_EQ(deduced, config);
      } else {
        VisionTransformer target(deduced);
        file.load_into(*target);
      }
    });
  }
}

/// What ViT-H/14 at 224 shows of itself without its 632 million parameters; fewer blocks pass for a
/// file that is whole.
Contents huge_header(std::int64_t depth) {
  Contents contents;
  contents.add("patch_embed.proj.weight", at::zeros({1280, 3, 14, 14}));
  contents.add("cls_token", at::zeros({1, 1, 1280}));
  contents.add("pos_embed", at::zeros({1, 257, 1280}));
  contents.add("blocks.0.attn.qkv.bias", at::zeros({3840}));
  contents.add("blocks.0.mlp.fc1.weight", at::zeros({5120, 1280}));
  contents.add("blocks." + std::to_string(depth - 1) + ".norm1.weight", at::zeros({1280}));
  contents.add("head.weight", at::zeros({5, 1280}));
  return contents;
}

std::int64_t huge_heads(const fs::path& file) {
  return Checkpoint::open(file).deduce_config().num_heads;
}

TEST(CheckpointTest, HeadsAreNotGuessedWhereTimmsModelsDiffer) {
  const testing::TemporaryFolder folder;
  const fs::path file = huge_header(32).write(folder.path() / "a.safetensors");
  Checkpoint bare = Checkpoint::open(file);
  EXPECT_TRUE(bare.notes().empty());
  EXPECT_ERROR(bare.deduce_config(), failed, "how many attention heads", "1280", "a.safetensors",
               "`model` vit_huge_patch14_224 `checkpoint` FILE", "config.json");
  // Who names it, in words or beside the file, gets its 16 heads; width / 64 would be 20.
  VitConfig named = model::find_architecture("vit_huge_patch14_224")->config;
  bare.complete(named);
  EXPECT_EQ(named.num_heads, 16);
  EXPECT_EQ(named.num_classes, 5);
  EXPECT_EQ(named.global_pool, model::Pooling::token);
  const Contents shallow = huge_header(2);
  shallow.write(file, {{"arch", "vit_huge_patch14_224"}});
  EXPECT_EQ(huge_heads(file), 16);
  shallow.write(file);
  for (const auto& [config, heads] :
       {std::pair{R"({"architecture": "vit_huge_patch14_224"})", 16},
        {R"({"architecture": "vit", "model_args": {"num_heads": 8}})", 8},
        {R"({"model_type": "vit", "num_attention_heads": 10})", 10}}) {
    folder.write("config.json", config);
    EXPECT_EQ(huge_heads(file), heads) << config;
  }
  folder.write("config.json", R"({"architecture": "vit"})");
  EXPECT_ERROR(huge_heads(file), failed, "how many attention heads");
}

TEST(CheckpointTest, AssumedHeadsAreNoted) {
  const testing::TemporaryFolder folder;
  const fs::path file = Contents{VisionTransformer(small())}.write(folder.path() / "a.safetensors");
  Checkpoint assumed = Checkpoint::open(file);
  EXPECT_EQ(assumed.deduce_config().num_heads, 3);
  ASSERT_EQ(assumed.notes().size(), 1U);
  EXPECT_EQ(
      assumed.notes()[0],
      "nothing says how many attention heads it has: 3 are assumed, as in timm's models of "
      "192 features, as are norms before attention and MLP, no rotations, exact GELU and an eps of "
      "1e-6");
  VitConfig named = small();
  assumed.complete(named);
  EXPECT_TRUE(assumed.notes().empty()) << "the user has named the architecture";
  folder.write("config.json", R"({"architecture": "vit", "model_args": {"num_heads": 2}})");
  EXPECT_TRUE(Checkpoint::open(file).notes().empty()) << "the user has said what it is";
  EXPECT_EQ(Checkpoint::open(file).deduce_config().num_heads, 2);
  // A configuration that does not say it is no answer.
  folder.write("config.json", R"({"architecture": "vit"})");
  EXPECT_EQ(Checkpoint::open(file).notes().size(), 1U);
}

TEST(CheckpointTest, ANamedArchitectureMayClassifyTheMean) {
  const testing::TemporaryFolder folder;
  VitConfig mean = small();
  mean.fc_norm = true;
  mean.global_pool = model::Pooling::avg;
  Checkpoint file =
      Checkpoint::open(Contents{VisionTransformer(mean)}.write(folder.path() / "a.safetensors"));
  VitConfig config = small();
  file.complete(config);
  EXPECT_EQ(config, mean);
}

TEST(CheckpointTest, ReadsDeitsLayerScale) {
  const testing::TemporaryFolder folder;
  VitConfig config = small();
  config.arch = "vit";
  config.layer_scale = true;
  Contents contents{VisionTransformer(config)};
  for (const std::string block : {"blocks.0", "blocks.1"}) {
    contents.rename(block + ".ls1.gamma", block + ".gamma_1");
    contents.rename(block + ".ls2.gamma", block + ".gamma_2");
  }
  const Checkpoint file = Checkpoint::open(contents.write(folder.path() / "a.safetensors"));
  EXPECT_EQ(file.deduce_config(), config);
  VisionTransformer model(config);
  EXPECT_NO_THROW(file.load_into(*model));
}

TEST(CheckpointTest, OpensAFolder) {
  const testing::TemporaryFolder folder;
  EXPECT_ERROR(Checkpoint::open(folder.path()), not_found, "model.safetensors");
  Contents{VisionTransformer(small())}.write(folder.path() / "model.safetensors");
  EXPECT_EQ(Checkpoint::open(folder.path()).file().filename(), "model.safetensors");
}

TEST(CheckpointTest, RefusesIntegersAsWeights) {
  const testing::TemporaryFolder folder;
  Contents contents{VisionTransformer(small())};
  for (TensorView& view : contents.views) {
    if (view.name == "norm.bias") view.dtype = Dtype::I32;
  }
  const Checkpoint file = Checkpoint::open(contents.write(folder.path() / "a.safetensors"));
  VisionTransformer model(small());
  EXPECT_ERROR(file.load_into(*model), unsupported_format, "I32", "norm.bias", "a.safetensors");
}

/// All codes against what torch says of them: its float32, in a file of make_torch_fixtures.py.
TEST(CheckpointTest, ReadsEveryCodeOfFloat8AsTorchDoes) {
  const auto table = SafetensorsFile::open(fs::path(HYDRASCOPE_SOURCE_DIR) /
                                           "tests/data/torch/float8.safetensors");
  std::string codes(256, '\0');
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<char>(i);
  const testing::TemporaryFolder folder;
  const VitConfig config = testing::small_vit({.dim = 16, .depth = 1, .heads = 2, .classes = 16});
  for (const char* kind : {"F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}) {
    Contents contents{VisionTransformer(config)};
    for (TensorView& view : contents.views) {
      if (view.name != "head.weight") continue;
      view.dtype = *find_dtype(kind);
      view.data = std::as_bytes(std::span(codes));
    }
    const Checkpoint file = Checkpoint::open(contents.write(folder.path() / "a.safetensors"));
    VisionTransformer model(config);
    file.load_into(*model);
    at::Tensor read;
    for (const auto& [name, tensor] : model::named_tensors(*model))
      if (name == "head.weight") read = tensor;
    const TensorView* expected = table.find(kind);
    ASSERT_NE(expected, nullptr);
    ASSERT_EQ(expected->shape, read.sizes().vec());
    std::vector<float> values(codes.size());
    std::memcpy(values.data(), expected->data.data(), expected->data.size());
    int nans = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float found = read.const_data_ptr<float>()[i];
      EXPECT_TRUE(found == values[i] || (std::isnan(found) && std::isnan(values[i])))
          << kind << ", code " << i << ": " << found << ", torch says " << values[i];
      nans += std::isnan(values[i]) ? 1 : 0;
    }
    EXPECT_EQ(nans, kind == std::string("F8_E5M2") ? 6 : kind == std::string("F8_E4M3") ? 2 : 1);
    // Converted, the codes stay as they are.
    const fs::path again = folder.path() / "b.safetensors";
    convert_checkpoint(again, file, *model, {}, std::nullopt, {});
    EXPECT_EQ(SafetensorsFile::open(again).find("head.weight")->dtype, *find_dtype(kind));
    EXPECT_EQ(std::memcmp(SafetensorsFile::open(again).find("head.weight")->data.data(),
                          codes.data(), codes.size()),
              0);
  }
}

TEST(CheckpointTest, BundledModelIsWhatItSays) {
  const Checkpoint file = Checkpoint::open(
      fs::path(HYDRASCOPE_SOURCE_DIR) / "assets/models/deit_tiny_patch16_224.softmax.safetensors");
  EXPECT_EQ(file.deduce_config().arch, "deit_tiny_patch16_224");
  EXPECT_EQ(file.deduce_config().num_heads, 3);
  EXPECT_EQ(file.metadata("license"), "apache-2.0");
  EXPECT_EQ(file.metadata("attention"), "softmax");
  EXPECT_EQ(file.metadata("parent_sha256").size(), 64U);
  EXPECT_EQ(file.tensors().size(), 152U);
}

}  // namespace checkpoint_test
}  // namespace hydrascope::checkpoint
