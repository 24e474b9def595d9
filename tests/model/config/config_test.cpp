#include "model/config/config.h"

#include "tests/cases.h"
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
  for (const testing::Json& row : testing::read_cases("model/config/configs.jsonl")) {
    testing::expect_case(row, [&] {
      const testing::Json& fields = row.at("config");
      const VitConfig read =
          config_from_json(fields.is_string() ? fields.get<std::string>() : fields.dump(), "file");
      EXPECT_EQ(read == VitConfig(), fields.empty());
      for (const int indent : {-1, 2})
        EXPECT_EQ(config_from_json(to_json(read, indent), "test"), read);
    });
  }
}

TEST(VitConfigTest, PicturesLeaveBelowTheHighestThreshold) {
  VitConfig config;
  config.exits = {0, 7, 10};
  EXPECT_FALSE(config.leaves_early());
  config.exit_threshold = 0.9;
  EXPECT_TRUE(config.leaves_early());
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

TEST(VitConfigTest, HostileJsonIsAnErrorNotACrash) {
  const std::string deep(100'000, '[');
  EXPECT_THROW(config_from_json("{\"arch\":" + deep + std::string(100'000, ']') + "}", "file"),
               Error);
  const std::string longest(100'000, 'x');
  try {
    config_from_json("{\"depth\":\"" + longest + "\"}", "file");
    FAIL();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 300U);
  }
}

}  // namespace
}  // namespace hydrascope::model
