#include "model/registry/positions.h"

#include "model/config/config.h"
#include "tests/cases.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace hydrascope::model {
namespace positions_test {

// Rules and mechanisms that exist in this test program only.
const PositionRegistration kTurn({.name = "test_turn",
                                  .aliases = {"test_t"},
                                  .options = {NumberOption("base", "100", 1, 1000, "base"),
                                              SwitchOption("mixed", false, "mixed")},
                                  .head_multiple = 4});
const PositionRegistration kBias({.name = "test_bias", .places_overview = true});
const MechanismRegistration kScores({.name = "test_scores", .takes_positions = true});
const MechanismRegistration kNoScores({.name = "test_no_scores"});

using Layers = std::vector<PositionSpec>;

TEST(PositionSpecTest, IsChosenByLayer) {
  Layers layers(6);
  EXPECT_EQ(to_text(layers), "none");
  apply_position_spec("test_t:0-3,test_bias:last1", layers);
  EXPECT_EQ(to_text(layers), "test_turn:0-3,none:4,test_bias:5");
  Layers again(6);
  apply_position_spec(to_text(layers), again);
  EXPECT_EQ(again, layers);
  apply_position_spec("none:2", layers);
  EXPECT_EQ(to_text(layers), "test_turn:0-1,none:2,test_turn:3,none:4,test_bias:5");
  EXPECT_EQ(to_text(Layers{}), "none");
}

TEST(PositionSpecTest, SettingsAreOfARuleOrOfSomeOfItsLayers) {
  Layers layers(4);
  apply_position_spec("test_turn", layers);
  apply_position_option("test_turn.base=10", layers);
  apply_position_option("test_t:2-3.base=50", layers);
  apply_position_option("test_turn:every2.mixed=on", layers);
  const std::map<std::string, std::string> expected{{"test_turn.base", "10|50"},
                                                    {"test_turn.mixed", "off|on"}};
  EXPECT_EQ(position_option_values(layers), expected);
  EXPECT_EQ(with_all_options(layers)[1].options,
            (std::map<std::string, std::string>{{"base", "10"}, {"mixed", "on"}}));
  apply_position_spec("test_turn:0", layers);  // it has the rule already: its setting stays
  EXPECT_EQ(layers[0].options.at("base"), "10");
}

TEST(PositionSpecTest, RefusesWhatItCannotMean) {
  for (const testing::Json& row : testing::read_cases("model/registry/position_specs.jsonl")) {
    testing::expect_case(row, [&] {
      Layers layers(4);
      apply_position_spec(row.at("spec").get<std::string>(), layers);
      for (const std::string option : row.at("options")) apply_position_option(option, layers);
    });
  }
  EXPECT_ERROR(PositionRegistration({.name = "none"}), internal, "twice");
}

TEST(PositionSpecTest, AConfigurationRefusesWhatALayerCannotHave) {
  VitConfig config;
  config.depth = 2;
  config.attention.assign(2, {"test_scores", {}});
  config.rel_pos.assign(2, {"test_turn", {{"base", "7"}}});
  EXPECT_NO_THROW(validate(config));
  EXPECT_EQ(config_from_json(to_json(config), "test"), config);
  const auto refused = [&](auto change, const char* what) {
    VitConfig changed = config;
    change(changed);
    EXPECT_ERROR(validate(changed), invalid_argument, what);
  };
  refused([](VitConfig& c) { c.attention[1].mechanism = "test_no_scores"; }, "no scores of pairs");
  refused([](VitConfig& c) { c.num_heads = 32; }, "no multiple of 4");
  refused([](VitConfig& c) { c.overview = true; }, "overview: expected false with 'test_turn'");
  config.rel_pos.assign(2, {"test_bias", {}});
  config.overview = true;
  EXPECT_NO_THROW(validate(config));
  config.overview = false;
  config.rel_pos.assign(2, {"test_turn", {{"base", "7"}}});
  refused([](VitConfig& c) { c.rel_pos.resize(1); }, "rel_pos: expected 2 layers");
  refused([](VitConfig& c) { c.rel_pos[0].options["base"] = "0"; }, "test_turn.base");
  refused([](VitConfig& c) { c.rel_pos[0] = {"none", {{"base", "1"}}}; }, "no options of none");
  refused(
      [](VitConfig& c) {
        c.embed_dim = 198;
        c.rel_pos.clear();
        c.pos_embed = PosEmbed::sincos;
      },
      "pos_embed");
  EXPECT_ERROR(config_from_json(R"({"rel_pos": ["test_turnn"]})", "test"), invalid_argument,
               "test_turnn");
  EXPECT_ERROR(config_from_json(R"({"rel_pos": [3]})", "test"), invalid_argument, "rule names");
  EXPECT_ERROR(config_from_json(R"({"pos_embed": "rope"})", "test"), invalid_argument, "sincos");
}

}  // namespace positions_test
}  // namespace hydrascope::model
