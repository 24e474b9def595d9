#include "model/checkpoint/hub/key_map.h"

#include "tests/cases.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

namespace hydrascope::checkpoint {
namespace key_map_test {

using testing::Json;
using Names = std::vector<std::string>;

/// The target of each key, with the part of a joined tensor in brackets.
Names targets(const KeyMapping& mapping) {
  Names result;
  for (const MappedKey& key : mapping.keys)
    result.push_back(key.target + (key.part == kWhole ? ""
                                                      : "[" + std::to_string(key.part) + " of " +
                                                            std::to_string(key.parts) + "]"));
  return result;
}

/// `row` with `prefix` in front of the file's names.
void expect_mapped(const Json& row, const std::string& prefix) {
  SCOPED_TRACE(prefix);
  Names keys;
  Names expected;
  for (const std::string name : row.at("names")) {
    const std::size_t arrow = name.find(" -> ");
    keys.push_back(prefix + name.substr(0, arrow));
    if (arrow != name.npos) expected.push_back(name.substr(arrow + 4));
  }
  const KeyMapping mapping = map_keys(keys, "x.pth");
  if (!expected.empty()) {
    EXPECT_EQ(targets(mapping), expected);
  }
  const Json facts{{"layout", mapping.layout->name},
                   {"eps", mapping.layout->layer_norm_eps},
                   {"stripped", mapping.stripped},
                   {"pools_mean", mapping.pools_mean},
                   {"left_out", mapping.left_out()}};
  for (const auto& [fact, value] : facts.items()) EXPECT_EQ(row.value(fact, value), value) << fact;
  for (const auto& [target, names] : testing::members(row, "file_names"))
    EXPECT_EQ(Json(mapping.file_names(target)), names) << target;
}

TEST(KeyMapTest, EveryNameHasItsMeaning) {
  for (const Json& row : testing::read_cases("model/checkpoint/hub/key_map.jsonl"))
    for (const std::string prefix : row.value("prefixes", Json::array({""})))
      testing::expect_case(row, [&] { expect_mapped(row, prefix); });
}

TEST(KeyMapTest, ClassifiersOfOtherNamesBesideABackbone) {
  for (const char* head : {"head", "fc", "classifier"}) {
    for (const auto& [prefix, of_head] : {std::pair{"backbone.", ""},
                                          {"model.backbone.", "model."},
                                          {"model.backbone.", "model.backbone."},
                                          {"", ""}}) {
      const Names keys{std::string(prefix) + "patch_embed.proj.weight",
                       std::string(of_head) + head + ".weight"};
      EXPECT_EQ(targets(map_keys(keys, "a")), (Names{"patch_embed.proj.weight", "head.weight"}))
          << keys[1];
    }
  }
}

TEST(KeyMapTest, EndlessWrappersEnd) {
  std::string prefix;
  for (int i = 0; i < 1000; ++i) prefix += "module.";
  EXPECT_ERROR(map_keys(Names{prefix + "patch_embed.proj.weight"}, "a"), unsupported_format);
}

TEST(KeyMapTest, TellsPartsThatAreNotComputed) {
  for (const char* name : {"cls_token", "blocks.11.norm1.weight", "blocks.0.attn.anything",
                           "blocks.3.mlp.norm.bias", "head_dist.bias", "fc_norm.weight",
                           "norm_pre.weight", "attn_pool.q.weight", "patch_embed.norm.weight"})
    EXPECT_TRUE(is_computed(name)) << name;
  for (const char* name :
       {"blocks.0.ls3.gamma", "blocks.0.mlp.w12.weight", "shared_rel_pos.mlp.fc1.weight",
        "blocks.0.attns.0.qkv.weight", "blocks.0.0.norm1.weight", "layers.0.blocks.0.norm1.weight",
        "head.fc.weight", "register_tokens", "blocks.0.surprise", "neck.0.weight"})
    EXPECT_FALSE(is_computed(name)) << name;
}

TEST(KeyMapTest, TellsTensorsOfMechanismsAndTablesOfBlocks) {
  for (const char* name : {"blocks.0.attn.feature_q.weight", "blocks.11.attn.scale"})
    EXPECT_TRUE(is_mechanism_tensor(name)) << name;
  for (const char* name :
       {"blocks.0.attn.qkv.weight", "blocks.0.attn.proj.bias", "blocks.0.attn.q_norm.weight",
        "blocks.0.attn.k_norm.bias", "blocks.0.mlp.fc1.weight", "blocks.0.attn",
        "blocks.x.attn.scale", "attn.scale", "blocks.3.pos_embed", "blocks.3.attn.norm.weight"})
    EXPECT_FALSE(is_mechanism_tensor(name)) << name;
  EXPECT_TRUE(is_layer_table("blocks.3.pos_embed"));
  EXPECT_FALSE(is_layer_table("pos_embed"));
}

}  // namespace key_map_test
}  // namespace hydrascope::checkpoint
