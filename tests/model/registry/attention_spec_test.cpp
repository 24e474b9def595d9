#include "model/registry/attention_spec.h"

#include "model/registry/mechanisms.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <initializer_list>
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

std::string applied(const char* spec, std::size_t depth = 12) {
  auto layers = layers_of(depth);
  apply_attention_spec(spec, layers);
  std::string letters;
  for (const AttentionSpec& layer : layers) letters += layer.mechanism == "test_alpha" ? 'a' : 'b';
  return letters;
}

TEST(AttentionSpecTest, SelectsLayers) {
  EXPECT_EQ(applied("test_alpha"), "aaaaaaaaaaaa");
  EXPECT_EQ(applied("test_a:0-9"), "aaaaaaaaaabb");
  EXPECT_EQ(applied("test_alpha:3"), "bbbabbbbbbbb");
  EXPECT_EQ(applied("test_alpha:0-1,test_alpha:4"), "aabbabbbbbbb");
  EXPECT_EQ(applied("test_alpha:last4"), "bbbbbbbbaaaa");
  EXPECT_EQ(applied("test_alpha:first2"), "aabbbbbbbbbb");
  EXPECT_EQ(applied("test_alpha:every2"), "babababababa");
  EXPECT_EQ(applied("test_alpha:every2", 5), "ababa");
  EXPECT_EQ(applied("test_alpha:every5"), "babbbbabbbba");
  EXPECT_EQ(applied("test_alpha,test_beta:last1"), "aaaaaaaaaaab");
}

TEST(AttentionSpecTest, RefusesWhatItCannotMean) {
  auto layers = layers_of(12);
  for (const char* spec :
       {"", "test_alpha:", "test_alpha:12", "test_alpha:5-3", "test_alpha:last0",
        "test_alpha:last13", "test_alpha:1x", "test_alpha:-1", "test_alpha,,test_beta", ":3",
        "test_alpha:every", "test_alpha:0-99999999999999999999", "test_alpha,test_beta",
        "test_alpha:0-3,test_beta:first6"}) {
    EXPECT_ERROR(apply_attention_spec(spec, layers), invalid_argument);
  }
  EXPECT_ERROR(apply_attention_spec("hydrra", layers), invalid_argument, "hydrra", "test_alpha");
  EXPECT_EQ(layers, layers_of(12)) << "a refused spec changes nothing";
}

TEST(AttentionSpecTest, TextIsReadBack) {
  for (const char* spec : {"test_alpha", "test_alpha:0-9,test_beta:10-11",
                           "test_beta:0,test_alpha:1-11", "test_alpha:every2"}) {
    auto layers = layers_of(12);
    apply_attention_spec(spec, layers);
    auto again = layers_of(12);
    apply_attention_spec(to_text(layers), again);
    EXPECT_EQ(layers, again) << spec << " became " << to_text(layers);
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

TEST(AttentionSpecTest, ChecksOptions) {
  auto layers = layers_of(4);
  apply_attention_spec("test_alpha:0", layers);
  EXPECT_ERROR(apply_attention_option("test_alpha.norm", layers), invalid_argument,
               "mechanism.key=value");
  EXPECT_ERROR(apply_attention_option("norm=l1", layers), invalid_argument, "mechanism.key=value");
  EXPECT_ERROR(apply_attention_option("test_alfa.norm=l1", layers), invalid_argument, "'test_alfa'",
               "`attn_opt`");
  EXPECT_ERROR(apply_attention_option("test_alpha.nrm=l1", layers), invalid_argument, "nrm",
               "norm, scale");
  EXPECT_ERROR(apply_attention_option("test_alpha.norm=l3", layers), invalid_argument, "l2|l1",
               "l3");
  EXPECT_ERROR(apply_attention_option("test_beta.x=1", layers), invalid_argument,
               "takes no options");
  apply_attention_spec("test_beta", layers);
  EXPECT_ERROR(apply_attention_option("test_alpha.norm=l1", layers), invalid_argument,
               "no layer runs test_alpha");
}

TEST(AttentionSpecTest, OptionsOfSomeLayers) {
  const auto scales = [](std::initializer_list<const char*> options) {
    auto layers = layers_of(6);
    apply_attention_spec("test_alpha:1-5", layers);
    for (const char* option : options) apply_attention_option(option, layers);
    std::string text;
    for (const AttentionSpec& layer : layers) {
      const auto found = layer.options.find("scale");
      text += found == layer.options.end() ? "-" : found->second;
    }
    return text;
  };
  EXPECT_EQ(scales({"test_a:2.scale=5"}), "--5---");
  EXPECT_EQ(scales({"test_alpha:3-4.scale=5"}), "---55-");
  EXPECT_EQ(scales({"test_alpha:last2.scale=5"}), "----55");
  EXPECT_EQ(scales({"test_alpha:every2.scale=5"}), "-5-5-5");
  EXPECT_EQ(scales({"test_alpha:first3.scale=5"}), "-55---") << "layer 0 runs another one";
  EXPECT_EQ(scales({"test_alpha.scale=5", "test_alpha:2.scale=7"}), "-57555")
      << "the last one wins";
  EXPECT_EQ(scales({"test_alpha:2.scale=0.5"}), "--0.5---") << "the value has a dot of its own";
  auto layers = layers_of(6);
  apply_attention_spec("test_alpha:1-5", layers);
  const auto before = layers;
  EXPECT_ERROR(apply_attention_option("test_alpha:0.scale=5", layers), invalid_argument,
               "none of the layers '0' runs test_alpha");
  EXPECT_ERROR(apply_attention_option("test_alpha:6.scale=5", layers), invalid_argument,
               "layers go from 0 to 5", "attn_opt");
  EXPECT_ERROR(apply_attention_option("test_alpha:.scale=5", layers), invalid_argument,
               "a layer number");
  EXPECT_ERROR(apply_attention_option("test_alpha:2=5", layers), invalid_argument,
               "mechanism:layers.key=value");
  EXPECT_EQ(layers, before);
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
