// Our table of architectures against timm's own models, which scripts/make/make_timm_architectures.py
// wrote down.
#include "model/config/architectures.h"

#include "model/config/timm_models.h"
#include "tests/cases.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <set>
#include <utility>

namespace hydrascope::model {
namespace architectures_test {

using nlohmann::json;

const json& timms_models() {
  static const json file = json::parse(
      std::ifstream(std::string(HYDRASCOPE_SOURCE_DIR) + "/tests/data/architectures.json"));
  return file.at("models");
}

/// Whether the network here is the same function: the rest of timm's would need other layers.
bool is_ours(const json& timm) {
  const json plain{{"block", "Block"},     {"attention", "Attention"}, {"mlp", "Mlp"},
                   {"activation", "GELU"}, {"norm", "LayerNorm"},      {"norm_pre", "Identity"},
                   {"q_norm", "Identity"}, {"last_norm", "LayerNorm"}};
  return timm.at("kinds") == plain && timm.at("global_pool") != "map";
}

/// The same but for a rule of positions, which its own classes have.
bool has_rule(const json& timm) {
  json kinds = timm.at("kinds");
  const std::string block = kinds.at("block");
  const bool is_beit = kinds.contains("rel_pos");
  if (block != "EvaBlock" && block != "RelPosBlock" && !is_beit) return false;
  kinds.erase("rel_pos");
  kinds.update({{"block", "Block"}, {"attention", "Attention"}, {"norm_pre", "Identity"}});
  if (is_beit) kinds["q_norm"] = "Identity";
  return is_ours({{"kinds", kinds}, {"global_pool", timm.at("global_pool")}});
}

/// timm's model with a plain MLP where ours is gated or has a norm, and timm's is and has.
json with_plain_mlp(json timm, const VitConfig& ours) {
  json& kinds = timm.at("kinds");
  if (ours.swiglu_mlp && (kinds.at("mlp") == "SwiGLU" || kinds.at("mlp") == "GluMlp") &&
      kinds.at("activation") == "SiLU")
    kinds.update({{"mlp", "Mlp"}, {"activation", "GELU"}});
  if (ours.scale_mlp && kinds.value("mlp_norm", "") == "LayerNorm") kinds.erase("mlp_norm");
  return timm;
}

void expect_transform(const image::TransformConfig& ours, const json& timm,
                      const std::string& name) {
  SCOPED_TRACE(name);
  EXPECT_EQ(json({3, ours.img_size.height, ours.img_size.width}), timm.at("input_size"));
  // As DeiT's authors evaluate, and as architectures.h says.
  const bool is_deit_at_224 = name.starts_with("deit_") && ours.img_size.height == 224;
  EXPECT_EQ(timm.at("crop_pct"), is_deit_at_224 ? json(0.9) : json(ours.crop_pct));
  EXPECT_EQ(ours.crop_pct == 0.875, is_deit_at_224);
  EXPECT_EQ(image::name(ours.crop_mode), timm.at("crop_mode").get<std::string>());
  EXPECT_EQ(image::name(ours.interpolation), timm.at("interpolation").get<std::string>());
  EXPECT_EQ(json(ours.mean), timm.at("mean"));
  EXPECT_EQ(json(ours.std), timm.at("std"));
}

TEST(ArchitecturesTest, EveryOfferedNameIsTimmsWithAllThatTimmSaysOfIt) {
  EXPECT_EQ(architecture_names().size(), 86U);
  for (const std::string& name : architecture_names()) {
    SCOPED_TRACE(name);
    const auto found = find_architecture(name);
    ASSERT_TRUE(found);
    const VitConfig& ours = found->config;
    // Rules are in the library of attention, which this program does without.
    VitConfig without_rules = ours;
    without_rules.rel_pos.clear();
    EXPECT_NO_THROW(validate(without_rules));
    EXPECT_EQ(ours.arch, name);
    ASSERT_TRUE(timms_models().contains(name));
    const json timm = with_plain_mlp(timms_models().at(name), ours);
    const bool learned = ours.pos_embed == PosEmbed::learned;
    EXPECT_TRUE(is_ours(timm) || has_rule(timm)) << timm.at("kinds");
    EXPECT_EQ(ours.rel_pos.empty(), is_ours(timm));
    EXPECT_EQ(json({ours.img_height, ours.img_width}), timm.at("img_size"));
    EXPECT_EQ(json(ours.patch_size), timm.at("patch_size"));
    EXPECT_EQ(json(ours.embed_dim), timm.at("embed_dim"));
    EXPECT_EQ(json(ours.depth), timm.at("depth"));
    EXPECT_EQ(json(ours.num_heads), timm.at("num_heads"));
    EXPECT_EQ(json(ours.hidden_dim()), timm.at("hidden_dim"));
    EXPECT_EQ(json(ours.qkv_bias), timm.at("qkv_bias"));
    EXPECT_EQ(json(ours.class_token), timm.at("class_token"));
    EXPECT_EQ(json(ours.distilled), timm.at("distilled"));
    EXPECT_EQ(json(ours.reg_tokens), timm.at("reg_tokens"));
    EXPECT_EQ(json(learned ? ours.grid_rows() * ours.grid_columns() +
                                 (ours.no_embed_class ? 0 : ours.num_prefix_tokens())
                           : 0),
              timm.at("positions"));
    EXPECT_EQ(json(ours.layer_scale), timm.at("layer_scale"));
    // Eva's and BEiT's blocks do not keep the number.
    if (timm.at("kinds").at("block") != "EvaBlock" && !timm.at("kinds").contains("rel_pos")) {
      EXPECT_EQ(ours.layer_scale ? json(ours.init_values) : json(), timm.at("init_values"));
    }
    EXPECT_EQ(model::name(ours.global_pool), timm.at("global_pool").get<std::string>());
    EXPECT_EQ(json(ours.fc_norm), timm.at("fc_norm"));
    EXPECT_EQ(json(ours.layer_norm_eps), timm.at("layer_norm_eps"));
    // Weights that timm has without a classifier (0) get one of as many classes as wanted.
    const json& classes = timm.at("num_classes");
    EXPECT_EQ(json(ours.num_classes), classes == 0 ? json(1000) : classes);
    EXPECT_EQ(found->transform.patch_size, ours.patch_size);
    expect_transform(found->transform, timm.at("transform"), name);
  }
}

TEST(TimmModelsTest, EveryNameOfTimmsIsComputedOrRefusedByItsParts) {
  EXPECT_EQ(timms_models().size(), 265U);
  std::size_t computed = 0;
  for (const auto& [name, timm] : timms_models().items()) {
    SCOPED_TRACE(name);
    const std::string lacks = timm.at("lacks");
    const TimmModel* const found = find_timm_model(name + ".a_tag");
    if (!lacks.empty()) {
      EXPECT_EQ(found, nullptr);
      EXPECT_EQ(why_not_computed(name), "has " + lacks + ", which this program does not compute");
      EXPECT_FALSE(find_architecture(name));
      continue;
    }
    ++computed;
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(why_not_computed(name), "");
    EXPECT_EQ(json(found->embed_dim), timm.at("embed_dim"));
    EXPECT_EQ(json(found->patch_size), timm.at("patch_size"));
    EXPECT_EQ(json(found->depth), timm.at("depth"));
    EXPECT_EQ(json(found->num_heads), timm.at("num_heads"));
    EXPECT_EQ(json(found->layer_norm_eps), timm.at("layer_norm_eps"));
    EXPECT_EQ(model::name(found->global_pool), timm.at("global_pool").get<std::string>());
    EXPECT_EQ(model::name(found->act), timm.at("act").get<std::string>());
    EXPECT_EQ(found->final_norm, timm.at("final_norm").get<bool>());
    EXPECT_EQ(found->post_norm, timm.at("post_norm").get<bool>());
    EXPECT_EQ(json(found->pool_heads), timm.at("pool_heads"));
    EXPECT_EQ(found->pool_prefix, timm.at("pool_prefix").get<bool>());
    EXPECT_EQ(found->rotations, timm.at("rotations").get<std::string>());
    if (const auto ours = find_architecture(name)) {
      EXPECT_EQ(ours->config.num_heads, found->num_heads);
      EXPECT_EQ(ours->config.layer_norm_eps, found->layer_norm_eps);
      EXPECT_EQ(ours->config.global_pool, found->global_pool);
    }
  }
  EXPECT_EQ(computed, 250U);
  EXPECT_EQ(why_not_computed("swin_tiny_patch4_window7_224"),
            "is of timm's swin_transformer, which is no plain vision transformer");
  for (const char* name : {"", "vit", "mine", "vit_tiny_patch16_96", "vit_base"})
    EXPECT_EQ(why_not_computed(name), "") << name;
  EXPECT_EQ(present_name("vit_small_patch16_224_in21k"), "vit_small_patch16_224.augreg_in21k");
  EXPECT_EQ(present_name("vit_small_patch16_224"), "vit_small_patch16_224");
}

TEST(ArchitecturesTest, ATagOfTimmsBringsItsTransform) {
  int changed = 0;
  for (const std::string& name : architecture_names()) {
    const json& timm = timms_models().at(name);
    for (const auto& [tag, differences] : timm.at("tags").items()) {
      const std::string full = name + "." + tag;
      const auto found = find_architecture(full);
      ASSERT_TRUE(found) << full;
      json transform = timm.at("transform");
      transform.update(differences);
      expect_transform(found->transform, transform, full);
      // The words in a record or a checkpoint lead back to the same transform.
      EXPECT_EQ(found->config.arch, differences.empty() ? name : full);
      EXPECT_EQ(find_architecture(found->config.arch)->transform, found->transform) << full;
      changed += differences.empty() ? 0 : 1;
    }
  }
  EXPECT_EQ(changed, 18);
  EXPECT_EQ(find_architecture("vit_base_patch16_224.unheard_of")->config.arch,
            "vit_base_patch16_224");
}

TEST(ArchitecturesTest, HeadsAreAssumedOnlyWhereTimmsModelsOfThatWidthAgree) {
  std::map<std::pair<std::int64_t, bool>, std::set<std::int64_t>> heads;
  for (const auto& [name, timm] : timms_models().items()) {
    if (is_ours(timm))
      heads[{timm.at("embed_dim"), timm.at("class_token")}].insert(
          timm.at("num_heads").get<std::int64_t>());
  }
  EXPECT_EQ(heads.size(), 23U);
  for (const auto& [kind, found] : heads) {
    const auto& [width, class_token] = kind;
    SCOPED_TRACE(std::to_string(width) + (class_token ? " with" : " without"));
    const auto usual = usual_num_heads(width, class_token);
    if (found == std::set{width / 64}) {
      EXPECT_EQ(usual, width / 64);
    } else {
      EXPECT_EQ(usual, std::nullopt);
    }
  }
  for (const std::int64_t width : {48, 64, 128, 1152, 1280, 1408, 1536, 1664})
    EXPECT_FALSE(usual_num_heads(width, true)) << width;
  EXPECT_EQ(usual_num_heads(768, true), 12);
  EXPECT_FALSE(usual_num_heads(768, false)) << "vit_base_patch16_gap_224 has 16";
}

TEST(ArchitecturesTest, OtherSizesPatchesAndRegistersAreAskedForByName) {
  for (const json& row : testing::read_cases("model/config/relative_names.jsonl")) {
    SCOPED_TRACE(row);
    const auto found = find_architecture(row.at("name").get<std::string>());
    ASSERT_EQ(found.has_value(), row.contains("size"));
    if (!found) continue;
    const VitConfig& ours = found->config;
    EXPECT_NO_THROW(validate(ours));
    const json facts{{"name", ours.arch},
                     {"embed_dim", ours.embed_dim},
                     {"num_heads", ours.num_heads},
                     {"patch_size", ours.patch_size},
                     {"size", ours.img_width},
                     {"prefix", ours.num_prefix_tokens()},
                     {"crop_pct", found->transform.crop_pct}};
    testing::expect_facts(row, facts);
    EXPECT_EQ(found->transform.img_size, (image::Size{ours.img_width, ours.img_width}));
    EXPECT_EQ(found->transform.patch_size, ours.patch_size);
  }
}

TEST(ArchitecturesTest, ANameIsFoundForShapes) {
  for (const std::string& name : architecture_names()) {
    VitConfig shape = find_architecture(name)->config;
    shape.arch.clear();
    shape.num_heads = 1;
    const std::string found = architecture_of_shape(shape);
    VitConfig same = find_architecture(found).value().config;
    same.arch.clear();
    same.num_heads = 1;
    same.init_values = shape.init_values;
    EXPECT_EQ(same, shape) << name << ", " << found;
  }
  VitConfig shape = find_architecture("vit_huge_patch14_224")->config;
  EXPECT_EQ(architecture_of_shape(shape), "vit_huge_patch14_224");
  shape.img_height = shape.img_width = 336;
  EXPECT_EQ(architecture_of_shape(shape), "vit_huge_patch14_336");
  shape.depth = 31;
  EXPECT_EQ(architecture_of_shape(shape), "");
}

}  // namespace architectures_test
}  // namespace hydrascope::model
