#include "model/vision_transformer.h"

#include "model/position_embedding.h"
#include "model/registry/mechanisms.h"
#include "tests/error_matchers.h"
#include "tests/model/small_vit.h"
#include "tests/model/tensor_match.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace hydrascope::model {
namespace vision_transformer_test {

VitConfig small() { return testing::small_vit({.depth = 2}); }

std::vector<std::string> keys(const VitConfig& config) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named_tensors(*VisionTransformer(config)))
    names.push_back(name);
  std::ranges::sort(names);
  return names;
}

TEST(VisionTransformerTest, StateDictHasTimmsNames) {
  VitConfig config = small();
  config.depth = 1;
  EXPECT_EQ(keys(config), (std::vector<std::string>{"blocks.0.attn.proj.bias",
                                                    "blocks.0.attn.proj.weight",
                                                    "blocks.0.attn.qkv.bias",
                                                    "blocks.0.attn.qkv.weight",
                                                    "blocks.0.mlp.fc1.bias",
                                                    "blocks.0.mlp.fc1.weight",
                                                    "blocks.0.mlp.fc2.bias",
                                                    "blocks.0.mlp.fc2.weight",
                                                    "blocks.0.norm1.bias",
                                                    "blocks.0.norm1.weight",
                                                    "blocks.0.norm2.bias",
                                                    "blocks.0.norm2.weight",
                                                    "cls_token",
                                                    "head.bias",
                                                    "head.weight",
                                                    "norm.bias",
                                                    "norm.weight",
                                                    "patch_embed.proj.bias",
                                                    "patch_embed.proj.weight",
                                                    "pos_embed"}));
  config.distilled = true;
  config.reg_tokens = 2;
  config.layer_scale = true;
  config.fc_norm = true;
  const std::vector<std::string> all = keys(config);
  for (const char* key : {"dist_token", "reg_token", "head_dist.weight", "blocks.0.ls1.gamma",
                          "blocks.0.ls2.gamma", "fc_norm.weight"}) {
    EXPECT_TRUE(std::ranges::binary_search(all, key)) << key;
  }
  EXPECT_FALSE(std::ranges::binary_search(all, "norm.weight"));

  config.patch_norm = config.rms_norm = config.scale_mlp = true;
  config.proj_bias = config.qkv_bias = false;
  const std::vector<std::string> bare = keys(config);
  for (const char* key : {"patch_embed.norm.weight", "blocks.0.norm1.weight", "fc_norm.weight",
                          "blocks.0.mlp.norm.weight", "patch_embed.proj.bias", "head.bias"}) {
    EXPECT_TRUE(std::ranges::binary_search(bare, key)) << key;
  }
  for (const std::string& key : bare)
    EXPECT_FALSE(key.starts_with("blocks.") && key.ends_with(".bias")) << key;
}

TEST(VisionTransformerTest, SeedDecidesTheWeights) {
  at::manual_seed(1);
  const VisionTransformer a(small());
  at::manual_seed(1);
  const VisionTransformer b(small());
  at::manual_seed(2);
  const VisionTransformer c(small());
  EXPECT_TRUE(at::equal(a->parameters()[0], b->parameters()[0]));
  EXPECT_FALSE(at::equal(a->parameters()[0], c->parameters()[0]));
}

TEST(VisionTransformerTest, GradientsReachEveryParameter) {
  at::manual_seed(0);
  VitConfig config = small();
  config.distilled = true;
  config.layer_scale = true;
  config.reg_tokens = 1;
  VisionTransformer model(config);
  model->forward(at::randn({1, 3, 32, 32})).square().sum().backward();
  for (const auto& item : model->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<float>(), 0) << item.key();
  }
}

TEST(VisionTransformerTest, RefusesImagesThatThePatchDoesNotDivide) {
  VisionTransformer model(small());
  EXPECT_ERROR(model->forward(at::zeros({1, 3, 33, 32})), internal, "multiples of 8",
               "[1, 3, 33, 32]");
  EXPECT_ERROR(model->forward(at::zeros({1, 4, 32, 32})), internal, "(B, 3, H, W)");
  EXPECT_ERROR(model->forward(at::zeros({3, 32, 32})), internal, "[3, 32, 32]");
}

TEST(RegistryTest, HoldsExactlyTheMechanismsOfThisBuild) {
  std::vector<std::string> names;
  for (const MechanismEntry* entry : mechanisms()) names.push_back(entry->name);
  // A linker that drops what nothing refers to by name drops registrations: every file has its own.
  std::vector<std::string> files;
  const std::filesystem::path root = HYDRASCOPE_SOURCE_DIR;
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(root / "model" / "attention" / "mechanisms")) {
    if (file.is_regular_file()) files.push_back(file.path().stem().string());
  }
  std::ranges::sort(files);
  EXPECT_EQ(names, files);
}

TEST(RegistryTest, ThePageOfMechanismsHasItsWords) {
  std::ifstream file(std::filesystem::path(HYDRASCOPE_SOURCE_DIR) / "docs/mechanisms.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  for (const MechanismEntry* entry : mechanisms()) {
    const std::string words = entry->summary + " | " + entry->map_definition + " |";
    EXPECT_NE(page.find(words), std::string::npos) << words;
  }
}

TEST(PositionEmbeddingTest, SameGridIsUntouchedAndPrefixStays) {
  const at::Tensor embed = at::randn({1, 2 + 4 * 6, 8});
  EXPECT_TRUE(resample_pos_embed(embed, 2, 4, 6, 4, 6, PosInterp::timm).is_same(embed));
  for (const PosInterp interpolation : {PosInterp::timm, PosInterp::hf}) {
    const at::Tensor larger = resample_pos_embed(embed, 2, 4, 6, 9, 5, interpolation);
    EXPECT_EQ(larger.sizes(), (at::IntArrayRef{1, 2 + 45, 8}));
    EXPECT_TRUE(at::equal(larger.slice(1, 0, 2), embed.slice(1, 0, 2)));
  }
}

TEST(PositionEmbeddingTest, ConstantStaysConstantAndRowsAreNotColumns) {
  const at::Tensor constant = at::full({1, 9, 4}, 3.0);
  EXPECT_TRUE(testing::all_near(resample_pos_embed(constant, 0, 3, 3, 7, 2, PosInterp::timm),
                                at::full({1, 14, 4}, 3.0), 1e-5));
  // A grid that depends on the column only still does after resampling, in row-major order.
  const at::Tensor ramp =
      at::arange(6, at::kFloat).view({1, 1, 6, 1}).expand({1, 4, 6, 1}).reshape({1, 24, 1});
  const at::Tensor resized = resample_pos_embed(ramp, 0, 4, 6, 2, 12, PosInterp::hf).view({2, 12});
  EXPECT_TRUE(testing::all_near(resized[0], resized[1], 1e-5));
  EXPECT_GT((resized[0][11] - resized[0][0]).item<float>(), 4.0F);
}

TEST(PositionEmbeddingTest, TilesBeginWithTheTablesFirstEntries) {
  const at::Tensor embed = at::randn({1, 2 + 4 * 6, 8});
  const at::Tensor table = embed.slice(1, 2).view({4, 6, 8});
  EXPECT_TRUE(resample_pos_embed(embed, 2, 4, 6, 4, 6, PosInterp::tile).is_same(embed));
  const at::Tensor whole = resample_pos_embed(embed, 2, 4, 6, 8, 18, PosInterp::tile);
  EXPECT_TRUE(at::equal(whole.slice(1, 0, 2), embed.slice(1, 0, 2)));
  EXPECT_TRUE(at::equal(whole.slice(1, 2).view({8, 18, 8}), table.repeat({2, 3, 1})));
  // 9 rows of at most 4 are intervals from 0, 3 and 6, 7 columns of at most 6 from 0 and 3.
  const at::Tensor ragged = resample_pos_embed(embed, 2, 4, 6, 9, 7, PosInterp::tile);
  const at::Tensor found = ragged.slice(1, 2).view({9, 7, 8});
  for (const auto& [row, entry] : {std::pair{2, 2}, {3, 0}, {5, 2}, {6, 0}, {8, 2}}) {
    EXPECT_TRUE(at::equal(found[row][2], table[entry][2])) << row;
    EXPECT_TRUE(at::equal(found[row][3], table[entry][0])) << row;
    EXPECT_TRUE(at::equal(found[row][6], table[entry][3])) << row;
  }
}

TEST(PositionEmbeddingTest, OnlyAxesThatGrowAreTiled) {
  const at::Tensor embed = at::randn({1, 4 * 6, 8});
  EXPECT_TRUE(at::equal(resample_pos_embed(embed, 0, 4, 6, 3, 5, PosInterp::tile),
                        resample_pos_embed(embed, 0, 4, 6, 3, 5, PosInterp::timm)));
  const at::Tensor narrow = resample_pos_embed(embed, 0, 4, 6, 4, 3, PosInterp::timm);
  EXPECT_TRUE(at::equal(resample_pos_embed(embed, 0, 4, 6, 8, 3, PosInterp::tile),
                        at::cat({narrow, narrow}, 1)));
}

TEST(PositionEmbeddingTest, TheModelTakesWhatItsConfigurationSays) {
  const c10::InferenceMode inference;
  const at::Tensor images = at::randn({1, 3, 64, 96});
  for (const PosInterp interpolation : {PosInterp::timm, PosInterp::hf, PosInterp::tile}) {
    VitConfig config = small();
    config.pos_interp = interpolation;
    EXPECT_EQ(config_from_json(to_json(config), "test").pos_interp, interpolation);
    at::manual_seed(3);
    VisionTransformer model(config);
    const TokenGrid grid = model->grid_of(images);
    const at::Tensor position = model->named_parameters()["pos_embed"];
    const at::Tensor expected = resample_pos_embed(position, 1, 4, 4, 8, 12, interpolation);
    const at::Tensor without = at::zeros_like(images);
    const at::Tensor tokens = model->embed(without, grid).slice(1, 1) - expected.slice(1, 1);
    // A picture without content leaves the patch embedding's bias.
    EXPECT_TRUE(testing::all_near(tokens, tokens.slice(1, 0, 1).expand_as(tokens), 1e-6));
  }
  EXPECT_ERROR(config_from_json(R"({"pos_interp": "nearest"})", "test"), invalid_argument,
               "pos_interp", "\"tile\"");
}

TEST(PositionEmbeddingTest, RefusesAWrongLength) {
  EXPECT_ERROR(resample_pos_embed(at::zeros({1, 10, 4}), 0, 3, 3, 7, 2, PosInterp::timm), internal,
               "(1, 9, D)");
}

TEST(PositionEmbeddingTest, SinesAndCosinesAreOfRowAndColumnAtEverySize) {
  const at::Tensor table = sincos_embedding(3, 5, 16).view({3, 5, 4, 4});
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t column = 0; column < 5; ++column) {
      for (std::int64_t n = 0; n < 4; ++n) {
        const double w = std::pow(10000.0, -static_cast<double>(n) / 4);
        const at::Tensor found = table[row][column].select(1, n);
        const at::Tensor wanted = at::tensor(
            {std::sin(static_cast<double>(row) * w), std::sin(static_cast<double>(column) * w),
             std::cos(static_cast<double>(row) * w), std::cos(static_cast<double>(column) * w)},
            at::kDouble);
        EXPECT_TRUE(testing::all_near(found, wanted, 1e-6)) << row << ' ' << column << ' ' << n;
      }
    }
  }
  // A larger picture only adds entries, and prefix tokens have none.
  VitConfig config;
  config.embed_dim = 16;
  config.num_heads = 2;
  config.pos_embed = PosEmbed::sincos;
  const at::Tensor all = position_embedding({}, config, config.token_grid(3, 5));
  EXPECT_TRUE(at::equal(all.slice(1, 1).view({3, 5, 4, 4}), table));
  EXPECT_TRUE(at::equal(all.slice(1, 0, 1), at::zeros({1, 1, 16})));
  EXPECT_TRUE(at::equal(sincos_embedding(6, 7, 16).view({6, 7, 16}).slice(0, 0, 3).slice(1, 0, 5),
                        table.flatten(2)));
  config.pos_embed = PosEmbed::none;
  EXPECT_TRUE(
      at::equal(position_embedding({}, config, config.token_grid(3, 5)), at::zeros({1, 16, 16})));
}

}  // namespace vision_transformer_test
}  // namespace hydrascope::model
