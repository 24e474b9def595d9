#include "app/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/error_matchers.h"

namespace hydrascope::app {
namespace {

using Words = std::vector<std::string>;

CommandSpec classify() {
  return {.name = "classify",
          .summary = "top-k classes",
          .positionals = "[INPUT...]",
          .options = join({model_options(), input_options(), preprocessing_options(), runtime_options(),
                           output_options(), label_options(), general_options()})};
}

ParsedOptions parsed(const Words& words) { return parse(classify(), words); }

TEST(Options, TakeTheirValueFromTheNextWordOrAfterEquals) {
  EXPECT_EQ(parsed({"--img-size", "384"}).text("img-size"), "384");
  EXPECT_EQ(parsed({"--img-size=384"}).text("img-size"), "384");
  EXPECT_EQ(parsed({"--attn-opt=hydra.eps=1e-6"}).texts("attn-opt"), Words{"hydra.eps=1e-6"});
}

TEST(Options, TreatUnderscoreAndMinusAlikeInNamesOnly) {
  EXPECT_EQ(parsed({"--img_size", "a_b"}).text("img-size"), "a_b");
  EXPECT_EQ(parsed({"--img_size=a_b"}).text("img-size"), "a_b");
  EXPECT_TRUE(parsed({"--no_progress"}).flag("no-progress"));
  EXPECT_EQ(parsed({"--initial_checkpoint=x_y"}).text("checkpoint"), "x_y");
  EXPECT_EQ(parsed({"a_b"}).positionals(), Words{"a_b"});
}

TEST(Options, KnowShortNames) {
  for (const Words& words : {Words{"-b", "8"}, Words{"-b8"}, Words{"-b=8"}, Words{"-vb8"}, Words{"-vqb", "8"}}) {
    EXPECT_EQ(parsed(words).integer("batch-size"), 8) << words[0];
  }
  const ParsedOptions options = parsed({"-m", "deit", "-o", "out/a.csv", "-c=", "-j2", "-d", "cuda:1", "-i", "x"}.size() == 0
                                           ? Words{}
                                           : Words{"-m", "deit", "-oout/a.csv", "-j2", "-dcuda:1", "-i", "x", "-v", "-q", "-h"});
  EXPECT_EQ(options.text("model"), "deit");
  EXPECT_EQ(options.text("output"), "out/a.csv");
  EXPECT_EQ(options.integer("workers"), 2);
  EXPECT_EQ(options.text("device"), "cuda:1");
  EXPECT_EQ(options.texts("input"), Words{"x"});
  EXPECT_TRUE(options.flag("verbose"));
  EXPECT_TRUE(options.flag("quiet"));
  EXPECT_TRUE(options.flag("help"));
}
