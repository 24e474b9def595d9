#include "model/config/network_cost.h"

#include "model/config/architectures.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

namespace hydrascope::model {
namespace {

const TokenGrid k224{1, 14, 14};
const TokenGrid k512{1, 32, 32};
const TokenGrid kFullHd{1, 68, 120};

double gmac(const AttentionSpec& layer, const TokenGrid& grid) {
  VitConfig config = find_architecture("vit_base_patch16_224")->config;
  config.attention.assign(12, layer);
  return gflops_per_image(config, grid) / 2;
}

struct Expected {
  AttentionSpec layer;
  double at_224, at_512, at_full_hd;
};

/// GMAC of ViT-B/16, twelve layers of each: 12 (12 N D^2 + mixing) + patches 768 D + 1000 D.
TEST(NetworkCostTest, IsTheArithmeticOfTheMechanisms) {
  const Expected table[] = {
      {{"softmax", {}}, 17.56, 107.0, 1925.6},
      {{"hydra", {}}, 16.85, 87.7, 698.1},
      {{"elu", {}}, 17.08, 88.9, 707.6},
      {{"hedgehog", {}}, 17.55, 91.3, 726.9},
      {{"performer", {{"variant", "pos"}, {"features", "266"}}}, 18.78, 97.7, 778.0},
      {{"taylor2", {}}, 24.64, 128.2, 1020.6},
      {{"linformer", {{"length", "256"}}}, 18.71, 97.3, 775.0},
      {{"window", {}}, 17.56, 89.86, 725.6},
      {{"neighborhood", {{"window", "7"}}}, 17.03, 88.63, 705.6}};
  for (const Expected& row : table) {
    SCOPED_TRACE(row.layer.mechanism);
    constexpr double kTolerance = 2e-3;  // norms and what the table rounds
    EXPECT_NEAR(gmac(row.layer, k224), row.at_224, kTolerance * row.at_224);
    EXPECT_NEAR(gmac(row.layer, k512), row.at_512, kTolerance * row.at_512);
    EXPECT_NEAR(gmac(row.layer, kFullHd), row.at_full_hd, kTolerance * row.at_full_hd);
  }
}

// The last block's query, proj and MLP of the 8160 patches, and its softmax but for one row.
TEST(NetworkCostTest, PlansLeaveOutWhatNobodyReads) {
  VitConfig config = find_architecture("vit_base_patch16_224")->config;
  constexpr double kLinear = 8160.0 * 2 * 768 * 768 * 10 * 1e-9;
  config.attention.assign(12, {"softmax", {}});
  EXPECT_NEAR(gflops_left_out(config, kFullHd), kLinear + 4.0 * 8160 * 8161 * 768 * 1e-9, 0.5);
  config.attention.assign(12, {"hydra", {}});
  EXPECT_NEAR(gflops_left_out(config, kFullHd), kLinear, 0.1);
  config.global_pool = Pooling::avg;
  EXPECT_EQ(gflops_left_out(config, kFullHd), 0);
}

TEST(NetworkCostTest, EachWeightOfABlockCountsOnce) {
  VitConfig config = find_architecture("vit_base_patch16_224")->config;
  constexpr double kBlock = 12.0 * 768 * 768;
  EXPECT_EQ(block_weights(config), 12 * kBlock);
  config.share_blocks = 3;
  EXPECT_EQ(block_weights(config), 3 * kBlock);
}

TEST(NetworkCostTest, AGateIsAThirdMatrixOfTheMlp) {
  VitConfig config = find_architecture("vit_base_patch16_224")->config;
  const double plain = gflops_per_image(config, k224);
  config.swiglu_mlp = true;
  EXPECT_NEAR(gflops_per_image(config, k224) - plain, 12 * 2 * 197 * 768 * 3072e-9, 1e-6);
}

TEST(NetworkCostTest, GatesAreTwelveMatricesOfABlockAndSharedBlocksCostAsMuchAsOthers) {
  VitConfig config = find_architecture("vit_base_patch16_224")->config;
  const double plain = gflops_per_image(config, k224);
  config.share_blocks = 3;
  EXPECT_EQ(gflops_per_image(config, k224), plain);
  config.residual = Residual::gru;
  EXPECT_NEAR(gflops_per_image(config, k224) - plain, 12 * 2 * 12 * 197 * 768 * 768e-9, 1e-6);
}

/// FLOPs that a rule adds to twelve layers of ViT-B/16.
double added_by(const std::string& rule, const TokenGrid& grid,
                const AttentionSpec& layer = {"softmax", {}},
                std::map<std::string, std::string> options = {}) {
  VitConfig config = find_architecture("vit_base_patch16_224")->config;
  config.attention.assign(12, layer);
  const double before = gflops_per_image(config, grid);
  config.rel_pos.assign(12, {rule, std::move(options)});
  return (gflops_per_image(config, grid) - before) * 1e9;
}

TEST(NetworkCostTest, PositionRulesAddWhatTheyDoToPairsAndTokens) {
  constexpr double kHeads = 12;
  constexpr double kLayers = 12;
  constexpr double kPairs = 197.0 * 197;
  // Sums of 1e11 keep about 1e-5 FLOPs.
  const auto expect = [](double found, double expected) { EXPECT_NEAR(found, expected, 1); };
  expect(added_by("alibi", k224), kLayers * kHeads * 2 * kPairs);
  expect(added_by("lookhere", k224), kLayers * kHeads * 2 * kPairs);
  expect(added_by("relbias", k224), kLayers * kHeads * kPairs);
  expect(added_by("da", k224), kLayers * kHeads * 6 * kPairs);
  expect(added_by("da", k224, {"softmax", {}}, {{"positive", "off"}}),
         kLayers * kHeads * 5 * kPairs);
  expect(added_by("rope", k224), kLayers * 6 * 196 * 768);
  // 27 entries of each axis, with and without those of values; 5 with clip=2.
  expect(added_by("shaw", k224), kLayers * (2.0 * 54 * 197 * 768 + kHeads * 2 * kPairs));
  expect(added_by("shaw", k224, {"softmax", {}}, {{"values", "on"}}),
         kLayers * 2 * (2.0 * 54 * 197 * 768 + kHeads * 2 * kPairs));
  expect(added_by("shaw", k512, {"softmax", {}}, {{"clip", "2"}}),
         kLayers * (2.0 * 10 * 1025 * 768 + kHeads * 2 * 1025 * 1025));
  // 27 offsets of each axis through W_R, then met by queries.
  expect(added_by("transformer_xl", k224),
         kLayers * (54.0 * 768 * 768 + 2.0 * 55 * 197 * 768 + kHeads * 2 * kPairs));
  // Windows of 10, 11 and 11 patches along both axes.
  const double pairs = 1025 + 1024 + 342.0 * 342;
  expect(added_by("alibi", k512, {"window", {}}), kLayers * kHeads * 2 * pairs);
  expect(added_by("rope", k512, {"window", {}}), kLayers * 6 * 1024 * 768);
}

}  // namespace
}  // namespace hydrascope::model
