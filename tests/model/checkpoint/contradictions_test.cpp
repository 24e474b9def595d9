// Files that hold more than a model computes, less than a name says, or another thing than what lies beside
// them: each is refused, or the file counts.
#include "model/checkpoint/checkpoint.h"
#include "model/vision_transformer.h"
#include "tests/cases.h"
#include "tests/error_matchers.h"
#include "tests/model/checkpoint/layouts.h"
#include "tests/temporary_folder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>

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

/// The file of a row, and the configuration beside it.
fs::path write_row(VisionTransformer& model, const testing::Json& row, const fs::path& folder) {
  const std::string names = row.value("names", "timm");
  const fs::path plain = folder / "plain.bin";
  const fs::path file = folder / "model.safetensors";
  if (names == "unknown" || names == "fc_norm") {
    write_as(model, plain, [&](const std::string& name) {
      if (names == "fc_norm") return std::vector{name.starts_with("norm.") ? "fc_" + name : name};
      return std::vector{"vision_model." + name.substr(0, name.size() - 2)};
    });
  } else {
    write_as(model, plain, names == "timm" ? Names::timm : Names::hugging_face_4, "");
  }
  if (row.contains("tensor")) {
    with_tensor(plain, file, row["tensor"]);
  } else {
    write_safetensors(file, SafetensorsFile::open(plain).tensors(),
                      row.value("metadata", Metadata()));
  }
  fs::remove(plain);
  if (row.contains("config")) std::ofstream(folder / "config.json") << row["config"];
  return file;
}

TEST(ContradictionsTest, EachIsRefusedOrTheFileCounts) {
  VisionTransformer model = random_model(small());
  for (const testing::Json& row : testing::read_cases("model/checkpoint/contradictions.jsonl")) {
    testing::expect_case(row, [&] {
      const testing::TemporaryFolder folder;
      const fs::path path = write_row(model, row, folder.path());
      if (row.contains("equal")) return expect_equal_logits(model, folder.path());
      Checkpoint file = Checkpoint::open(path);
      VitConfig config = small();
      if (row.contains("complete")) return file.complete(config);
      VisionTransformer target(config);
      if (row.contains("load")) return static_cast<void>(file.load_into(*target));
      HeadOptions head;
      if (row.contains("classes")) head.num_classes = row["classes"];
      testing::expect_facts(testing::Json::parse(model::to_json(file.deduce_config(head))),
                            row.value("deduced", testing::Json::object()));
    });
  }
}

TEST(ContradictionsTest, RotationsAndALayerBeforeTheClassifierMayHaveAPlace) {
  const testing::TemporaryFolder folder;
  VisionTransformer model = random_model(small());
  const fs::path plain = folder.path() / "plain.safetensors";
  write_as(model, plain, Names::timm, "");
  const fs::path other = folder.path() / "a.safetensors";
  for (const char* name : {"rope.periods", "rope.bands"}) {
    VitConfig turned = small();
    turned.rel_pos.assign(static_cast<std::size_t>(turned.depth), {"rope", {}});
    VisionTransformer of_rotations(turned);
    Checkpoint file = Checkpoint::open(with_tensor(plain, other, name));
    file.complete(turned);
    EXPECT_NO_THROW(file.load_into(*of_rotations));
  }
  const HeadOptions reset{.num_classes = {}, .reset = true};
  const Checkpoint file = Checkpoint::open(with_tensor(plain, other, "pre_logits.fc.weight"));
  VisionTransformer fresh(file.deduce_config(reset));
  EXPECT_EQ(file.load_into(*fresh, reset).unused.size(), 3U);
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

}  // namespace layouts_test
}  // namespace hydrascope::checkpoint
