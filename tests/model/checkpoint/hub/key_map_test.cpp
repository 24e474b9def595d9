#include "model/checkpoint/hub/key_map.h"

#include "tests/error_matchers.h"

#include <gtest/gtest.h>

namespace hydrascope::checkpoint {
namespace key_map_test {

using Names = std::vector<std::string>;

std::string text(const MappedKey& key) {
  return key.part == kWhole ? key.target : key.target + "[" + std::to_string(key.part) + "]";
}

/// The target of each key, with the part of a joined tensor in brackets.
Names targets(const KeyMapping& mapping) {
  Names result;
  for (const MappedKey& key : mapping.keys) result.push_back(text(key));
  return result;
}

Names with_prefix(const std::string& prefix, Names names) {
  for (std::string& name : names) name.insert(0, prefix);
  return names;
}

const Names kTimm{"cls_token", "pos_embed",  "patch_embed.proj.weight", "blocks.0.attn.qkv.weight",
                  "norm.bias", "head.weight"};

TEST(KeyMapTest, TimmsNamesStay) {
  const KeyMapping mapping = map_keys(kTimm, "a");
  EXPECT_EQ(mapping.layout->name, "timm");
  EXPECT_EQ(mapping.layout->layer_norm_eps, 1e-6);
  EXPECT_EQ(targets(mapping), kTimm);
  EXPECT_TRUE(mapping.stripped.empty());
}

TEST(KeyMapTest, TimmsOldAndDeitsNames) {
  const Names keys{"patch_embed.proj.weight",
                   "blocks.11.gamma_1",
                   "blocks.0.gamma_2",
                   "pre_logits.fc.weight",
                   "mask_token",
                   "head.fc_cls.bias",
                   "gamma_1"};
  EXPECT_EQ(targets(map_keys(keys, "a")),
            (Names{"patch_embed.proj.weight", "blocks.11.ls1.gamma", "blocks.0.ls2.gamma",
                   "pre_logits.fc.weight", "", "head.bias", "gamma_1"}));
}

TEST(KeyMapTest, HuggingFace4) {
  const Names body{"embeddings.cls_token",
                   "embeddings.distillation_token",
                   "embeddings.position_embeddings",
                   "embeddings.patch_embeddings.projection.weight",
                   "embeddings.mask_token",
                   "encoder.layer.10.layernorm_before.weight",
                   "encoder.layer.10.attention.attention.query.weight",
                   "encoder.layer.10.attention.attention.key.bias",
                   "encoder.layer.10.attention.attention.value.weight",
                   "encoder.layer.10.attention.output.dense.bias",
                   "encoder.layer.10.layernorm_after.bias",
                   "encoder.layer.10.intermediate.dense.weight",
                   "encoder.layer.10.output.dense.bias",
                   "layernorm.weight",
                   "pooler.dense.weight"};
  const Names expected{"cls_token",
                       "dist_token",
                       "pos_embed",
                       "patch_embed.proj.weight",
                       "",
                       "blocks.10.norm1.weight",
                       "blocks.10.attn.qkv.weight[0]",
                       "blocks.10.attn.qkv.bias[1]",
                       "blocks.10.attn.qkv.weight[2]",
                       "blocks.10.attn.proj.bias",
                       "blocks.10.norm2.bias",
                       "blocks.10.mlp.fc1.weight",
                       "blocks.10.mlp.fc2.bias",
                       "norm.weight",
                       ""};
  for (const char* prefix : {"", "vit.", "deit.", "module.vit.", "model.deit."}) {
    const KeyMapping mapping = map_keys(with_prefix(prefix, body), "a");
    EXPECT_EQ(mapping.layout->name, "Hugging Face 4") << prefix;
    EXPECT_EQ(mapping.layout->layer_norm_eps, 1e-12);
    EXPECT_EQ(targets(mapping), expected) << prefix;
  }
}

TEST(KeyMapTest, HuggingFace5) {
  const Names body{"embeddings.cls_token",
                   "layers.3.layernorm_before.weight",
                   "layers.3.attention.q_proj.weight",
                   "layers.3.attention.k_proj.weight",
                   "layers.3.attention.v_proj.bias",
                   "layers.3.attention.o_proj.weight",
                   "layers.3.layernorm_after.weight",
                   "layers.3.mlp.fc1.weight",
                   "layers.3.mlp.fc2.bias"};
  const Names expected{"cls_token",
                       "blocks.3.norm1.weight",
                       "blocks.3.attn.qkv.weight[0]",
                       "blocks.3.attn.qkv.weight[1]",
                       "blocks.3.attn.qkv.bias[2]",
                       "blocks.3.attn.proj.weight",
                       "blocks.3.norm2.weight",
                       "blocks.3.mlp.fc1.weight",
                       "blocks.3.mlp.fc2.bias"};
  for (const char* prefix : {"", "vit.", "deit."}) {
    const KeyMapping mapping = map_keys(with_prefix(prefix, body), "a");
    EXPECT_EQ(mapping.layout->name, "Hugging Face 5") << prefix;
    EXPECT_EQ(targets(mapping), expected) << prefix;
    EXPECT_TRUE(mapping.stripped.empty()) << "vit. and deit. belong to the layout";
  }
}

TEST(KeyMapTest, EvasPartsAndBeitsTable) {
  const Names keys{"patch_embed.proj.weight",
                   "blocks.2.attn.q_proj.weight",
                   "blocks.2.attn.v_proj.bias",
                   "blocks.2.mlp.fc1_g.weight",
                   "blocks.2.mlp.fc1_x.bias",
                   "blocks.2.attn.relative_position_bias_table",
                   "blocks.2.attn.relative_position_index"};
  const KeyMapping mapping = map_keys(keys, "a");
  EXPECT_EQ(targets(mapping), (Names{"patch_embed.proj.weight", "blocks.2.attn.qkv.weight[0]",
                                     "blocks.2.attn.qkv.bias[2]", "blocks.2.mlp.fc1.weight[0]",
                                     "blocks.2.mlp.fc1.bias[1]",
                                     "blocks.2.attn.rel_pos.relative_position_bias_table", ""}));
  EXPECT_EQ(mapping.keys[1].parts, kJoined);
  EXPECT_EQ(mapping.keys[3].parts, kGated);
}

TEST(KeyMapTest, TablesOfBlocksAreNoPartOfTheirAttention) {
  EXPECT_TRUE(is_layer_table("blocks.3.pos_embed"));
  EXPECT_FALSE(is_layer_table("pos_embed"));
  EXPECT_FALSE(is_mechanism_tensor("blocks.3.pos_embed"));
  EXPECT_FALSE(is_mechanism_tensor("blocks.3.attn.norm.weight"));
}

TEST(KeyMapTest, HeadsOfHuggingFace) {
  const Names keys{"vit.layers.0.layernorm_before.weight", "classifier.weight",
                   "cls_classifier.bias", "distillation_classifier.weight"};
  EXPECT_EQ(targets(map_keys(keys, "a")),
            (Names{"blocks.0.norm1.weight", "head.weight", "head.bias", "head_dist.weight"}));
}

TEST(KeyMapTest, StripsWrappersRepeatedlyAndSaysSo) {
  for (const Names& wrappers :
       {Names{"module."}, Names{"_orig_mod."}, Names{"model."}, Names{"backbone."},
        Names{"module.", "_orig_mod."}, Names{"_orig_mod.", "module.", "model.", "backbone."},
        Names{"timm_model."}, Names{"net."}, Names{"encoder."}, Names{"trunk."},
        Names{"ema_model."}, Names{"base_model.", "model."}, Names{"student.", "backbone."},
        Names{"visual.", "trunk."}, Names{"image_encoder."}, Names{"model.", "model."},
        Names{"module.", "module."}, Names{"any.", "thing.", "0."}}) {
    std::string prefix;
    for (const std::string& wrapper : wrappers) prefix += wrapper;
    const KeyMapping mapping = map_keys(with_prefix(prefix, kTimm), "a");
    EXPECT_EQ(targets(mapping), kTimm) << prefix;
    EXPECT_EQ(mapping.stripped, wrappers);
  }
}

TEST(KeyMapTest, HeadsMayStandOutsideAWrapper) {
  const Names keys{"module.backbone.cls_token", "module.backbone.patch_embed.proj.weight",
                   "module.head.fc_cls.weight"};
  const KeyMapping mapping = map_keys(keys, "a");
  EXPECT_EQ(targets(mapping), (Names{"cls_token", "patch_embed.proj.weight", "head.weight"}));
  EXPECT_EQ(mapping.stripped, (Names{"module.", "backbone."}));
  EXPECT_EQ(mapping.file_names("head.bias"), Names{"module.head.bias"});
  EXPECT_EQ(mapping.file_names("norm.bias"), Names{"module.backbone.norm.bias"});
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

TEST(KeyMapTest, TwoModelsAreNotOne) {
  for (const auto& [one, other] : {std::pair{"student.", "teacher."},
                                   {"model.", "ema_model."},
                                   {"", "model_ema."},
                                   {"teacher.backbone.", "student.backbone."}}) {
    Names keys = with_prefix(one, kTimm);
    for (const std::string& key : with_prefix(other, kTimm)) keys.push_back(key);
    const std::string first = std::string(one) + "patch_embed.proj.weight";
    const std::string second = std::string(other) + "patch_embed.proj.weight";
    EXPECT_ERROR(map_keys(keys, "x.pth"), unsupported_format, "more than one model", first.c_str(),
                 second.c_str(), "x.pth");
  }
  Names towers = with_prefix("image_encoder.", kTimm);
  towers.emplace_back("text_encoder.token_embedding.weight");
  EXPECT_ERROR(map_keys(towers, "x.pth"), unsupported_format, "image_encoder.",
               "text_encoder.token_embedding.weight");
}

TEST(KeyMapTest, WhatWrappersKeepBesideTheModelIsLeft) {
  Names keys = with_prefix("module.", kTimm);
  keys.insert(keys.begin(), "n_averaged");
  keys.emplace_back("criterion.weight");
  Names expected = kTimm;
  expected.insert(expected.begin(), "");
  expected.emplace_back("");
  EXPECT_EQ(targets(map_keys(keys, "a")), expected);
}

TEST(KeyMapTest, OtherModelsOfHuggingFaceWithViTsNames) {
  for (const char* model : {"videomae.", "dpt.", "audio_spectrogram_transformer."})
    EXPECT_ERROR(
        map_keys(Names{std::string(model) + "encoder.layer.0.layernorm_before.weight"}, "a"),
        unsupported_format, model, "does not read");
}

/// Name of a file's tensor, and the module's with the part of its rows.
struct Spelled {
  std::string key;
  std::string target;
  int part = kWhole;
};

void expect_mapped(const std::string& layout, const std::vector<Spelled>& table,
                   const std::string& prefix = "") {
  Names keys;
  for (const Spelled& each : table) keys.push_back(prefix + each.key);
  const KeyMapping mapping = map_keys(keys, "a");
  EXPECT_EQ(mapping.layout->name, layout);
  for (std::size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(mapping.keys[i].target, table[i].target) << table[i].key;
    EXPECT_EQ(mapping.keys[i].part, table[i].part) << table[i].key;
  }
}

TEST(KeyMapTest, DinosOfHuggingFace) {
  for (const char* prefix : {"", "dinov2.", "dinov2_with_registers."})
    expect_mapped("Hugging Face DINOv2",
                  {{"embeddings.register_tokens", "reg_token"},
                   {"embeddings.mask_token", ""},
                   {"encoder.layer.3.layer_scale1.lambda1", "blocks.3.ls1.gamma"},
                   {"encoder.layer.3.attention.attention.key.bias", "blocks.3.attn.qkv.bias", 1},
                   {"encoder.layer.3.mlp.weights_in.weight", "blocks.3.mlp.fc1.weight"},
                   {"encoder.layer.3.mlp.weights_out.bias", "blocks.3.mlp.fc2.bias"},
                   {"encoder.layer.3.norm2.bias", "blocks.3.norm2.bias"},
                   {"layernorm.weight", "norm.weight"}},
                  prefix);
  // Without a gate the same name is another tensor.
  const Spelled shared{"layer.0.layer_scale1.lambda1", "blocks.0.ls1.gamma"};
  expect_mapped("Hugging Face DINOv3",
                {shared, {"layer.0.mlp.up_proj.weight", "blocks.0.mlp.fc1.weight"}});
  expect_mapped("Hugging Face DINOv3, gated",
                {shared,
                 {"layer.0.mlp.gate_proj.weight", "blocks.0.mlp.fc1.weight", 0},
                 {"layer.0.mlp.up_proj.weight", "blocks.0.mlp.fc1.weight", 1},
                 {"layer.0.mlp.down_proj.weight", "blocks.0.mlp.fc2.weight"}});
}

TEST(KeyMapTest, DinosOfTheirAuthors) {
  expect_mapped("timm", {{"patch_embed.proj.weight", "patch_embed.proj.weight"},
                         {"register_tokens", "reg_token"},
                         {"blocks.2.17.mlp.w12.weight", "blocks.17.mlp.fc1.weight"},
                         {"blocks.2.17.mlp.w3.bias", "blocks.17.mlp.fc2.bias"},
                         {"blocks.0.3.norm1.weight", "blocks.3.norm1.weight"}});
  expect_mapped("DINOv3", {{"patch_embed.proj.weight", "patch_embed.proj.weight"},
                           {"rope_embed.periods", ""},
                           {"storage_tokens", "reg_token"},
                           {"blocks.0.mlp.w1.weight", "blocks.0.mlp.fc1.weight", 0},
                           {"blocks.0.mlp.w2.weight", "blocks.0.mlp.fc1.weight", 1}});
}

TEST(KeyMapTest, TowersOfClipAndSiglip) {
  for (const char* prefix : {"", "vision_model."}) {
    expect_mapped("Hugging Face CLIP",
                  {{"embeddings.class_embedding", "cls_token"},
                   {"embeddings.position_embedding.weight", "pos_embed"},
                   {"pre_layrnorm.bias", "norm_pre.bias"},
                   {"encoder.layers.1.self_attn.v_proj.weight", "blocks.1.attn.qkv.weight", 2},
                   {"post_layernorm.weight", "norm.weight"}},
                  prefix);
    expect_mapped("Hugging Face SigLIP",
                  {{"embeddings.patch_embedding.weight", "patch_embed.proj.weight"},
                   {"head.probe", "attn_pool.latent"},
                   {"head.attention.in_proj_weight", "attn_pool.qkv.weight"},
                   {"head.mlp.fc1.weight", "attn_pool.mlp.fc1.weight"}},
                  prefix);
  }
  expect_mapped("CLIP",
                {{"ln_pre.weight", "norm_pre.weight"},
                 {"conv1.weight", "patch_embed.proj.weight"},
                 {"proj", "head.weight"},
                 {"transformer.resblocks.5.attn.in_proj_bias", "blocks.5.attn.qkv.bias"},
                 {"transformer.resblocks.5.mlp.c_proj.weight", "blocks.5.mlp.fc2.weight"}},
                "visual.");
}

TEST(KeyMapTest, ClassifiersOfTowersPoolByTheMean) {
  const Names clip{"vision_model.embeddings.class_embedding", "vision_model.post_layernorm.weight",
                   "classifier.weight"};
  const KeyMapping mapping = map_keys(clip, "a");
  EXPECT_EQ(targets(mapping), (Names{"cls_token", "", "head.weight"}));
  EXPECT_TRUE(mapping.pools_mean);
  const Names siglip{"vision_model.embeddings.patch_embedding.weight", "vision_model.head.probe",
                     "vision_model.post_layernorm.weight", "classifier.bias"};
  EXPECT_EQ(targets(map_keys(siglip, "a")),
            (Names{"patch_embed.proj.weight", "", "norm.weight", "head.bias"}));
}

TEST(KeyMapTest, Torchvision) {
  expect_mapped(
      "torchvision",
      {{"class_token", "cls_token"},
       {"conv_proj.bias", "patch_embed.proj.bias"},
       {"encoder.pos_embedding", "pos_embed"},
       {"encoder.layers.encoder_layer_11.ln_1.weight", "blocks.11.norm1.weight"},
       {"encoder.layers.encoder_layer_11.self_attention.in_proj_weight",
        "blocks.11.attn.qkv.weight"},
       {"encoder.layers.encoder_layer_11.mlp.linear_2.weight", "blocks.11.mlp.fc2.weight"},
       {"encoder.layers.encoder_layer_11.mlp.0.weight", "blocks.11.mlp.fc1.weight"},
       {"encoder.ln.bias", "norm.bias"},
       {"heads.head.weight", "head.weight"}});
}

TEST(KeyMapTest, PartsWithoutUseAreLeftOutAndCounted) {
  const auto left_out = [](const Names& keys) { return map_keys(keys, "a").left_out(); };
  EXPECT_EQ(left_out({"vision_model.embeddings.class_embedding", "visual_projection.weight",
                      "text_model.encoder.layers.0.layer_norm1.weight", "logit_scale"}),
            Names{"the text tower (2 tensors)"});
  EXPECT_EQ(left_out({"visual.ln_pre.weight", "visual.transformer.resblocks.0.ln_1.weight",
                      "transformer.resblocks.0.ln_1.weight", "positional_embedding"}),
            Names{"the text tower (2 tensors)"});
  EXPECT_EQ(left_out({"visual.trunk.patch_embed.proj.weight", "text.ln_final.weight"}),
            Names{"the text tower (1 tensor)"});
  EXPECT_EQ(left_out({"module.backbone.patch_embed.proj.weight", "module.head.mlp.0.weight",
                      "module.head.last_layer.weight_v"}),
            Names{"a head of the pretraining (2 tensors)"});
  EXPECT_EQ(left_out({"vit.encoder.layer.0.layernorm_before.weight",
                      "decoder.decoder_encoder.layer.0.layernorm_before.weight"}),
            Names{"the decoder of the pretraining (1 tensor)"});
  EXPECT_ERROR(left_out({"vision_model.embeddings.class_embedding", "language_model.weight"}),
               unsupported_format, "language_model.weight");
}

// transformers 5 writes it so.
TEST(KeyMapTest, HalfAPrefixOfViTMsn) {
  EXPECT_EQ(targets(map_keys(Names{"encoder.layer.0.layernorm_before.weight",
                                   "vit.embeddings.cls_token", "vit.layernorm.bias"},
                             "a")),
            (Names{"blocks.0.norm1.weight", "cls_token", "norm.bias"}));
}

TEST(KeyMapTest, TellsPartsThatAreNotComputed) {
  for (const char* name :
       {"cls_token", "blocks.11.norm1.weight", "blocks.0.attn.anything", "blocks.3.mlp.norm.bias",
        "head_dist.bias", "fc_norm.weight", "norm_pre.weight", "attn_pool.q.weight"})
    EXPECT_TRUE(is_computed(name)) << name;
  for (const char* name :
       {"patch_embed.norm.weight", "blocks.0.ls3.gamma", "blocks.0.mlp.w12.weight",
        "blocks.0.attns.0.qkv.weight", "blocks.0.0.norm1.weight", "layers.0.blocks.0.norm1.weight",
        "head.fc.weight", "register_tokens", "blocks.0.surprise", "neck.0.weight"})
    EXPECT_FALSE(is_computed(name)) << name;
}

TEST(KeyMapTest, APrefixThatAnotherKeyLacksIsNone) {
  EXPECT_ERROR(map_keys(Names{"model.patch_embed.proj.weight", "teacher.norm.weight"}, "x.pth"),
               unsupported_format, "'model.'", "teacher.norm.weight", "x.pth");
  const Names keys{"patch_embed.proj.weight", "model.norm.weight"};
  EXPECT_EQ(targets(map_keys(keys, "a")), keys);
}

TEST(KeyMapTest, SpellsNamesAsTheFileDoes) {
  const KeyMapping hf = map_keys(
      Names{"module.deit.encoder.layer.0.layernorm_before.weight", "module.classifier.bias"}, "a");
  EXPECT_EQ(hf.file_names("blocks.7.attn.qkv.bias"),
            (Names{"module.deit.encoder.layer.7.attention.attention.query.bias",
                   "module.deit.encoder.layer.7.attention.attention.key.bias",
                   "module.deit.encoder.layer.7.attention.attention.value.bias"}));
  EXPECT_EQ(hf.file_names("blocks.7.norm2.bias"),
            Names{"module.deit.encoder.layer.7.layernorm_after.bias"});
  EXPECT_EQ(hf.file_names("head.bias"), Names{"module.classifier.bias"});
  EXPECT_EQ(hf.file_names("reg_token"), Names{"module.deit.reg_token"});
  EXPECT_EQ(map_keys(kTimm, "a").file_names("blocks.0.ls1.gamma"), Names{"blocks.0.ls1.gamma"});
}

TEST(KeyMapTest, RefusesOtherModelsByTheirKeys) {
  EXPECT_ERROR(map_keys(Names{"conv1.weight", "bn1.weight"}, "resnet.pth"), unsupported_format,
               "conv1.weight", "resnet.pth", "timm", "Hugging Face 5");
  EXPECT_ERROR(map_keys(Names{}, "a"), unsupported_format, "no tensors");
  EXPECT_ERROR(map_keys(Names{"layers.x.layernorm_before.weight"}, "a"), unsupported_format);
  EXPECT_ERROR(map_keys(Names{"layers..layernorm_before.weight", ""}, "a"), unsupported_format);
}

TEST(KeyMapTest, EndlessWrappersEnd) {
  std::string prefix;
  for (int i = 0; i < 1000; ++i) prefix += "module.";
  EXPECT_ERROR(map_keys(with_prefix(prefix, kTimm), "a"), unsupported_format);
}

TEST(KeyMapTest, TellsTensorsOfMechanisms) {
  for (const char* name : {"blocks.0.attn.feature_q.weight", "blocks.11.attn.scale"})
    EXPECT_TRUE(is_mechanism_tensor(name)) << name;
  for (const char* name :
       {"blocks.0.attn.qkv.weight", "blocks.0.attn.proj.bias", "blocks.0.attn.q_norm.weight",
        "blocks.0.attn.k_norm.bias", "blocks.0.mlp.fc1.weight", "blocks.0.attn",
        "blocks.x.attn.scale", "attn.scale"})
    EXPECT_FALSE(is_mechanism_tensor(name)) << name;
}

}  // namespace key_map_test
}  // namespace hydrascope::checkpoint
