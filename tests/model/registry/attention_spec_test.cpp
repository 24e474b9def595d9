#include "model/registry/attention_spec.h"

#include "model/registry/mechanisms.h"
#include "tests/cases.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrascope::model {
namespace {

// Mechanisms that exist in this test program only: the grammar does not depend on which there are.
const MechanismRegistration kAlpha({.name = "test_alpha",
                                    .aliases = {"test_a"},
                                    .options = {ChoiceOption<int>("norm", {{"l2", 2}, {"l1", 1}},
                                                                  "norm"),
                                                NumberOption("scale", "1", 0, 10, "scale")},
                                    .former_options = {{"form", "plain"}}});
const MechanismRegistration kBeta({.name = "test_beta"});
const MechanismRegistration kDelta({.name = "test_delta",
                                    .options = {ExtentOption("size", "patches")}});

std::vector<AttentionSpec> layers_of(std::size_t depth) {
  return std::vector<AttentionSpec>(depth, {"test_beta", {}});
}

TEST(AttentionSpecTest, SelectsLayersAndSetsTheirOptions) {
  for (const testing::Json& row : testing::read_cases("model/registry/attention_specs.jsonl")) {
    auto layers = layers_of(row.value("layers", 12U));
    auto before = layers;
    testing::expect_case(row, [&] {
      apply_attention_spec(row.at("spec").get<std::string>(), layers);
      before = layers;
      for (const std::string option : row.value("options", testing::Json::array()))
        apply_attention_option(option, layers);
      std::string chosen;
      std::string scales;
      for (const AttentionSpec& layer : layers) {
        chosen += layer.mechanism == "test_alpha" ? 'a' : 'b';
        scales += layer.options.contains("scale") ? layer.options.at("scale") : "-";
      }
      EXPECT_EQ(row.value("chosen", chosen), chosen);
      EXPECT_EQ(row.value("scales", scales), scales);
      if (row.contains("options")) return;
      auto again = layers_of(layers.size());
      apply_attention_spec(to_text(layers), again);
      EXPECT_EQ(layers, again) << to_text(layers);
    });
    if (row.contains("error")) {
      EXPECT_EQ(layers, before) << "what is refused changes nothing: " << row;
    }
  }
  EXPECT_EQ(to_text(layers_of(3)), "test_beta");
  EXPECT_EQ(to_text(std::vector<AttentionSpec>{}), "softmax");
}

TEST(AttentionSpecTest, KeepsOptionsOfLayersThatStay) {
  auto layers = layers_of(4);
  apply_attention_spec("test_alpha:0-1", layers);
  apply_attention_option("test_a.norm=l1", layers);
  apply_attention_option("test_alpha.scale=0.5", layers);
  apply_attention_spec("test_alpha:1-3", layers);
  EXPECT_EQ(layers[1].options.at("norm"), "l1");
  EXPECT_EQ(layers[1].options.at("scale"), "0.5");
  EXPECT_TRUE(layers[2].options.empty());
}

TEST(AttentionSpecTest, OptionsOfEarlierVersionsMayHaveTheValueThatIsLeft) {
  const MechanismOptions options(AttentionSpec{"test_alpha", {{"form", "plain"}}});
  EXPECT_FALSE(options.all().contains("form"));
  EXPECT_ERROR(MechanismOptions(AttentionSpec{"test_alpha", {{"form", "causal"}}}),
               invalid_argument, "test_alpha.form=causal is gone", "form=plain");
}

TEST(AttentionSpecTest, ExtentsAreOneIntegerOrTwoAndZeroIsTheTrainingGrids) {
  const TokenGrid square{1, 14, 14};
  const TokenGrid oblong{1, 14, 24};
  const auto stored = [](const char* value, const TokenGrid& training) {
    std::vector<AttentionSpec> layers{{"test_delta", {}}};
    if (*value != 0) apply_attention_option(std::string("test_delta.size=") + value, layers);
    return with_all_options(layers, training).front().options.at("size");
  };
  EXPECT_EQ(stored("", square), "14");
  EXPECT_EQ(stored("", oblong), "14x24");
  EXPECT_EQ(stored("7", oblong), "7");
  EXPECT_EQ(stored("7x9", square), "7x9");
  EXPECT_EQ(stored("0x9", oblong), "14x9");
  EXPECT_EQ(stored(stored("", square).c_str(), oblong), "14");
  std::vector<AttentionSpec> layers{{"test_delta", {}}};
  for (const char* value : {"-1", "7.5", "x", "7x", "x7", "7x7x7", "65537", "7x-1", "seven"}) {
    EXPECT_ERROR(apply_attention_option(std::string("test_delta.size=") + value, layers),
                 invalid_argument, "or two, ROWSxCOLUMNS", value);
  }
}

TEST(RegistryTest, RefusesASecondEntryOfAName) {
  EXPECT_ERROR(MechanismRegistration({.name = "test_alpha"}), internal, "registered twice");
  EXPECT_ERROR(MechanismRegistration({.name = "test_a"}), internal, "registered twice");
  EXPECT_ERROR(MechanismRegistration({.name = "test_gamma", .aliases = {"test_beta"}}), internal,
               "registered twice");
}

}  // namespace
}  // namespace hydrascope::model
