#include "model/config/config.h"

#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace hydrascope::model {
namespace {

/// A configuration in which every field differs from its default.
VitConfig unusual() {
  VitConfig config;
  config.arch = "mine";
  config.img_height = 128;
  config.img_width = 256;
  config.patch_size = 8;
  config.in_chans = 1;
  config.num_classes = 7;
  config.embed_dim = 48;
  config.depth = 3;
  config.num_heads = 4;
  config.mlp_ratio = 2.5;
  config.swiglu_mlp = true;
  config.scale_mlp = true;
  config.scale_attn = true;
  config.post_norm = true;
  config.patch_bias = false;
  config.patch_norm = true;
  config.rms_norm = true;
  config.proj_bias = false;
  config.norm_pre = true;
  config.qkv_bias = false;
  config.class_token = true;
  config.distilled = true;
  config.reg_tokens = 2;
  config.no_embed_class = true;
  config.layer_scale = true;
  config.init_values = 0.5;
  config.fc_norm = true;
  config.layer_norm_eps = 1e-12;
  config.pos_interp = PosInterp::tile;
  config.overview = true;
  config.attention.assign(3, {});
  config.pos_embed = PosEmbed::sincos;
  config.rel_pos.assign(3, {});
  config.exit_rule = ExitRule::learned;
  config.exit_threshold = 0.75;
  config.residual = Residual::gru;
  config.share_blocks = 1;
  config.step_embed = true;
  config.gate_scale = 5;
  config.gate_center = 75;
  return config;
}

TEST(VitConfigTest, SurvivesJson) {
  const VitConfig config = unusual();
  EXPECT_EQ(config_from_json(to_json(config), "test"), config);
  VitConfig pooled;
  pooled.global_pool = Pooling::map;
  pooled.pool_heads = 6;
  pooled.pool_prefix = true;
  pooled.act = Activation::quick_gelu;
  pooled.final_norm = false;
  EXPECT_EQ(config_from_json(to_json(pooled), "test"), pooled);
  EXPECT_NE(pooled, VitConfig{});
  for (const char* mlp : {R"("swiglu_mlp":true)", R"("scale_mlp":true)", R"("proj_bias":false)"})
    EXPECT_ERROR(config_from_json(R"({"global_pool":"map",)" + std::string(mlp) + "}", "test"),
                 invalid_argument, "attention pooling");
  EXPECT_EQ(config_from_json("{}", "test"), VitConfig{});
  VitConfig leaving;
  leaving.exits = {0, 7, 10};
  leaving.exit_rule = ExitRule::saturation;
  EXPECT_EQ(config_from_json(to_json(leaving), "test"), leaving);
  EXPECT_NE(leaving, VitConfig{});
  EXPECT_FALSE(leaving.leaves_early());
  leaving.exit_threshold = 0.9;
  EXPECT_TRUE(leaving.leaves_early());
  VitConfig halting;
  halting.halting = true;
  halting.residual = Residual::gru;
  EXPECT_EQ(config_from_json(to_json(halting), "test"), halting);
  VitConfig average;
  average.global_pool = Pooling::avg;
  average.class_token = false;
  EXPECT_EQ(config_from_json(to_json(average, 2), "test"), average);
}

// Checkpoints name every option with its value, also those that have gone since.
TEST(VitConfigTest, OptionsOfEarlierVersionsMayHaveTheValueThatIsLeft) {
  const auto read = [](const std::string& option) {
    return config_from_json(
        R"({"depth":1,"attention":[{"mechanism":"cosformer","options":{)" + option + "}}]}",
        "test");
  };
  const VitConfig config =
      read(R"("form":"bidirectional","reweighting":"product","max_grid":"0","local":"none")");
  EXPECT_EQ(config.attention.front().options,
            (std::map<std::string, std::string>{{"local", "none"}}));
  EXPECT_ERROR(read(R"("form":"causal")"), invalid_argument, "cosformer.form=causal is gone",
               "form=bidirectional");
  EXPECT_ERROR(read(R"("max_grid":"14")"), invalid_argument, "cosformer.max_grid=14 is gone");
  EXPECT_ERROR(read(R"("local":"conv5")"), invalid_argument, "cosformer.local=conv5 is gone",
               "convert the model again with cosformer.local=window7");
}

TEST(VitConfigTest, ComparisonSeesEveryField) {
  // Each field's text changes the comparison: read it back with one field replaced by the other's.
  const VitConfig base;
  int fields = 0;
  VitConfig::visit(base, [&](std::string_view, const auto&) { ++fields; });
  const VitConfig other = unusual();
  int differing = 0;
  for (int chosen = 0; chosen < fields; ++chosen) {
    VitConfig changed = base;
    int index = 0;
    VitConfig::visit(changed, [&](std::string_view field, auto& value) {
      if (index++ != chosen) return;
      VitConfig::visit(other, [&](std::string_view other_field, const auto& other_value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>,
                                     std::decay_t<decltype(other_value)>>) {
          if (field == other_field) value = other_value;
        }
      });
    });
    differing += !(changed == base);
  }
  // These have their default in `unusual`, or it would not be valid.
  const std::set<std::string> usual{"class_token", "global_pool", "act",
                                    "final_norm",  "pool_heads",  "pool_prefix",
                                    "exits",       "halting",     "coarse_exits"};
  EXPECT_EQ(differing, fields - static_cast<int>(usual.size()));
}

TEST(VitConfigTest, TextShowsEveryField) {
  const std::string text = to_text(unusual());
  const VitConfig config = unusual();
  VitConfig::visit(config, [&](std::string_view field, const auto&) {
    EXPECT_NE(text.find(std::string(field) + ": "), std::string::npos) << field;
  });
  EXPECT_NE(text.find("img_width: 256\n"), std::string::npos);
}

TEST(VitConfigTest, RefusesExitsThatTheNetworkCannotHave) {
  const auto read = [](const std::string& fields) {
    return config_from_json("{" + fields + "}", "file");
  };
  for (const char* exits : {"[11]", "[12]", "[-1]", "[3,3]", "[7,6]", "[9000000000]"})
    EXPECT_ERROR(read(R"("exits":)" + std::string(exits)), invalid_argument, "exits",
                 "layers from 0 to 10, ascending", exits);
  EXPECT_ERROR(read(R"("depth":1,"exits":[0])"), invalid_argument, "exits", "one layer");
  EXPECT_ERROR(read(R"("exits":7)"), invalid_argument, "exits", "a list of integers");
  EXPECT_ERROR(read(R"("exits":[7.5])"), invalid_argument, "exits", "a list of integers");
  EXPECT_ERROR(read(R"("exit_rule":"never")"), invalid_argument, "exit_rule", "\"margin\"",
               "never");
  EXPECT_ERROR(read(R"("exit_threshold":1.5)"), invalid_argument, "exit_threshold", "-1 to 1");
  for (const char* other : {R"("global_pool":"avg")", R"("final_norm":false)", R"("fc_norm":true)"})
    EXPECT_ERROR(read(std::string(other) + R"(,"exits":[7])"), invalid_argument, "exits",
                 "class token");
  for (const char* other : {"swiglu_mlp", "scale_mlp", "scale_attn", "post_norm"})
    EXPECT_ERROR(read("\"" + std::string(other) + R"(":true,"exits":[7])"), invalid_argument,
                 "exits", "branch");
}

TEST(VitConfigTest, RefusesLayersThatTheNetworkCannotHave) {
  const auto read = [](const std::string& fields) {
    return config_from_json("{" + fields + "}", "file");
  };
  EXPECT_ERROR(read(R"("residual":"sum")"), invalid_argument, "residual", "\"reversible\"", "sum");
  for (const char* count : {"-1", "5", "13"})
    EXPECT_ERROR(read(R"("share_blocks":)" + std::string(count)), invalid_argument, "share_blocks");
  EXPECT_ERROR(read(R"("depth":2,"share_blocks":1,"attention":["softmax","hydra"])"),
               invalid_argument, "share_blocks", "layer 1 differs from layer 0");
  EXPECT_ERROR(read(R"("step_embed":true)"), invalid_argument, "step_embed", "share_blocks");
  EXPECT_ERROR(read(R"("gate_scale":0)"), invalid_argument, "gate_scale", "above 0");
  for (const char* one :
       {R"("share_blocks":3)", R"("residual":"reversible")", R"("halting":true)"}) {
    EXPECT_ERROR(read(std::string(one) + R"(,"pos_embed":"layers")"), invalid_argument,
                 "tables of positions in every layer");
    EXPECT_ERROR(read(std::string(one) + R"(,"exits":[7])"), invalid_argument, "exits", "beside");
  }
  EXPECT_ERROR(read(R"("residual":"reversible","halting":true)"), invalid_argument, "halting");
  EXPECT_ERROR(read(R"("residual":"reversible","share_blocks":1,"step_embed":true)"),
               invalid_argument, "step_embed");
  for (const char* other :
       {R"("distilled":true)", R"("global_pool":"avg")", R"("depth":1,"attention":["hydra"])",
        R"("depth":1,"attention":[{"mechanism":"softmax","options":{"logit_scale":"log"}}])",
        R"("depth":1,"rel_pos":["alibi"])"})
    EXPECT_ERROR(read(std::string(other) + R"(,"halting":true)"), invalid_argument, "halting",
                 "beside");
}

TEST(VitConfigTest, StepsRepeatTheSharedBlocks) {
  VitConfig config;
  EXPECT_ERROR(set_steps(config, 2), invalid_argument, "share no blocks");
  config.share_blocks = 2;
  config.attention.resize(12);
  apply_attention_spec("hydra:every2", config.attention);
  ASSERT_NO_THROW(validate(config));
  for (const std::int64_t steps : {9, 1}) {
    set_steps(config, steps);
    EXPECT_EQ(config.depth, 2 * steps);
    EXPECT_NO_THROW(validate(config));
    EXPECT_EQ(config.attention.size(), static_cast<std::size_t>(2 * steps));
  }
  EXPECT_EQ(config.num_blocks(), 2);
  EXPECT_EQ(config.block_of(7), 1);
}

TEST(VitConfigTest, RefusesUnknownKeysAndWrongTypes) {
  EXPECT_ERROR(config_from_json(R"({"embed_dimension": 3})", "file"), invalid_argument,
               "embed_dimension", "embed_dim", "file");
  EXPECT_ERROR(config_from_json(R"({"depth": 2.5})", "file"), invalid_argument, "depth",
               "an integer", "2.5");
  EXPECT_ERROR(config_from_json(R"({"arch": 1})", "file"), invalid_argument, "arch", "a string");
  EXPECT_ERROR(config_from_json(R"({"qkv_bias": 1})", "file"), invalid_argument, "qkv_bias",
               "true or false");
  EXPECT_ERROR(config_from_json(R"({"mlp_ratio": "4"})", "file"), invalid_argument, "mlp_ratio",
               "a number");
  EXPECT_ERROR(config_from_json(R"({"global_pool": "max"})", "file"), invalid_argument,
               "global_pool", "max");
  EXPECT_ERROR(config_from_json(R"({"attention": ["magic"]})", "file"), invalid_argument);
  EXPECT_ERROR(config_from_json("[1]", "file"), decode_failed, "JSON object");
  EXPECT_ERROR(config_from_json("{", "file"), decode_failed, "JSON");
}

struct InvalidCase {
  const char* field;
  void (*spoil)(VitConfig&);
};

TEST(VitConfigTest, HostileJsonIsAnErrorNotACrash) {
  const std::string deep(100'000, '[');
  EXPECT_THROW(config_from_json("{\"arch\":" + deep + std::string(100'000, ']') + "}", "file"),
               Error);
  EXPECT_THROW(config_from_json("{\"depth\":1,\"depth\":2}", "file"), Error);
  const std::string longest(100'000, 'x');
  try {
    config_from_json("{\"depth\":\"" + longest + "\"}", "file");
    FAIL();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 300U);
  }
}

TEST(VitConfigTest, ValidateNamesTheField) {
  const InvalidCase cases[] = {
      {"patch_size", [](VitConfig& c) { c.patch_size = 0; }},
      {"img_height", [](VitConfig& c) { c.img_height = 225; }},
      {"img_width", [](VitConfig& c) { c.img_width = 1 << 20; }},
      {"in_chans", [](VitConfig& c) { c.in_chans = 0; }},
      {"num_classes", [](VitConfig& c) { c.num_classes = -1; }},
      {"embed_dim", [](VitConfig& c) { c.embed_dim = -1; }},
      {"depth", [](VitConfig& c) { c.depth = 100000; }},
      {"num_heads", [](VitConfig& c) { c.num_heads = 5; }},
      {"mlp_ratio", [](VitConfig& c) { c.mlp_ratio = 0; }},
      {"reg_tokens", [](VitConfig& c) { c.reg_tokens = -1; }},
      {"layer_norm_eps", [](VitConfig& c) { c.layer_norm_eps = 0; }},
      {"class_token", [](VitConfig& c) { c.distilled = true, c.class_token = false; }},
      {"global_pool", [](VitConfig& c) { c.class_token = false; }},
      {"attention", [](VitConfig& c) { c.attention.resize(5); }},
  };
  for (const InvalidCase& item : cases) {
    VitConfig config;
    item.spoil(config);
    EXPECT_ERROR(validate(config), invalid_argument, item.field);
  }
  EXPECT_NO_THROW(validate(VitConfig{}));
}

}  // namespace
}  // namespace hydrascope::model
