#include "model/training/parameter_groups.h"

#include "model/checkpoint/hub/key_map.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <map>

namespace hydrascope::model::training {
namespace {

struct Settings {
  double scale, decay;
};

std::map<std::string, Settings> settings(const std::vector<ParameterGroup>& groups) {
  std::map<std::string, Settings> by_name;
  for (const ParameterGroup& group : groups)
    for (const auto& [name, parameter] : group.parameters)
      EXPECT_TRUE(by_name.insert({name, {group.learning_rate_scale, group.weight_decay}}).second);
  return by_name;
}

VitConfig narrow() {
  VitConfig config;
  config.img_height = config.img_width = 32;
  config.embed_dim = 24;
  return config;
}

// The groups of timm 1.0.31's param_groups_layer_decay(vit_tiny_patch16_224, 0.05,
// no_weight_decay(), layer_decay=0.75).
TEST(ParameterGroupsTest, AreTimms) {
  VisionTransformer model(narrow());
  ParameterGroupOptions options;
  options.layer_decay = 0.75;
  const std::vector<ParameterGroup> groups = parameter_groups(*model, options);
  EXPECT_EQ(groups.size(), 28U);
  const auto found = settings(groups);
  EXPECT_EQ(found.size(), model->parameters().size());
  const std::map<std::string, Settings> expected{
      {"cls_token", {0.023757264018058777, 0}},
      {"pos_embed", {0.023757264018058777, 0}},
      {"patch_embed.proj.bias", {0.023757264018058777, 0}},
      {"patch_embed.proj.weight", {0.023757264018058777, 0.05}},
      {"blocks.0.norm1.weight", {0.03167635202407837, 0}},
      {"blocks.0.attn.qkv.bias", {0.03167635202407837, 0}},
      {"blocks.0.attn.qkv.weight", {0.03167635202407837, 0.05}},
      {"blocks.5.mlp.fc2.weight", {0.13348388671875, 0.05}},
      {"blocks.10.attn.proj.weight", {0.5625, 0.05}},
      {"blocks.11.mlp.fc1.bias", {0.75, 0}},
      {"norm.weight", {0.75, 0}},
      {"head.weight", {1, 0.05}},
      {"head.bias", {1, 0}},
  };
  for (const auto& [name, settings] : expected) {
    EXPECT_NEAR(found.at(name).scale, settings.scale, 1e-12) << name;
    EXPECT_EQ(found.at(name).decay, settings.decay) << name;
  }
}

TEST(ParameterGroupsTest, TokensAndLayerScalesAreNotDecayed) {
  VitConfig config = narrow();
  config.depth = 1;
  config.distilled = true;
  config.reg_tokens = 2;
  config.layer_scale = true;
  VisionTransformer model(config);
  const auto found = settings(parameter_groups(*model, {}));
  for (const char* name : {"dist_token", "reg_token", "blocks.0.ls1.gamma"})
    EXPECT_EQ(found.at(name).decay, 0) << name;
  EXPECT_EQ(found.at("head_dist.weight").decay, 0.05);
}

TEST(ParameterGroupsTest, MechanismsLearnFaster) {
  VitConfig config = narrow();
  config.depth = 2;
  config.attention = {{"softmax", {}}, {"hedgehog", {}}};
  VisionTransformer model(config);
  ParameterGroupOptions options;
  options.mechanism_rate_scale = 3;
  options.layer_decay = 0.5;
  int mechanism = 0;
  for (const auto& [name, settings] : settings(parameter_groups(*model, options))) {
    if (!checkpoint::is_mechanism_tensor(name)) continue;
    ++mechanism;
    EXPECT_DOUBLE_EQ(settings.scale, 1.5) << name;
    EXPECT_EQ(settings.decay, name.ends_with(".bias") ? 0 : 0.05) << name;
  }
  EXPECT_EQ(mechanism, 4);
  EXPECT_FALSE(checkpoint::is_mechanism_tensor("blocks.1.attn.qkv.weight"));
  EXPECT_FALSE(checkpoint::is_mechanism_tensor("blocks.1.mlp.fc1.weight"));
}

TEST(ParameterGroupsTest, PatternsChooseWhatIsTrained) {
  VisionTransformer model(narrow());
  ParameterGroupOptions options;
  options.train = {"blocks.1", "blocks.1?.attn.*", "head"};
  options.freeze = {"*.bias"};
  const auto found = settings(parameter_groups(*model, options));
  EXPECT_EQ(found.count("blocks.1.mlp.fc1.weight"), 1U);
  EXPECT_EQ(found.count("blocks.1.mlp.fc1.bias"), 0U);
  EXPECT_EQ(found.count("blocks.10.attn.qkv.weight"), 1U);
  EXPECT_EQ(found.count("blocks.10.mlp.fc1.weight"), 0U);
  EXPECT_EQ(found.count("head.weight"), 1U);
  for (const auto& item : model->named_parameters())
    EXPECT_EQ(item.value().requires_grad(), found.count(item.key()) == 1) << item.key();
  parameter_groups(*model, {});
  EXPECT_TRUE(model->named_parameters()["pos_embed"].requires_grad());
}

TEST(ParameterGroupsTest, RefusesPatternsWithoutEffect) {
  VisionTransformer model(narrow());
  ParameterGroupOptions options;
  options.freeze = {"block.*"};
  EXPECT_ERROR(parameter_groups(*model, options), invalid_argument, "block.*");
  options.freeze = {"*"};
  EXPECT_ERROR(parameter_groups(*model, options), invalid_argument, "nothing is left");
}

}  // namespace
}  // namespace hydrascope::model::training
