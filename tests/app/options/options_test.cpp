#include "app/options/options.h"

#include "app/options/option_builders.h"
#include "tests/app/options/small_command.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrascope::app {
namespace options_test {

using Words = std::vector<std::string>;

using testing::classify;

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
  EXPECT_EQ(parsed({"--class_map=x_y"}).text("labels"), "x_y");
  EXPECT_EQ(parsed({"a_b"}).positionals(), Words{"a_b"});
}

TEST(Options, ReadShortNamesSeparateJoinedAndWithEquals) {
  for (const Words& words : {Words{"-b", "8"}, Words{"-b8"}, Words{"-b=8"}, Words{"-vb8"},
                             Words{"-vqb", "8"}, Words{"-b=+8"}}) {
    EXPECT_EQ(parsed(words).integer("batch-size"), 8) << words[0];
  }
}

TEST(Options, KnowEveryShortNameOfTheContract) {
  const ParsedOptions options =
      parsed({"-m", "deit", "-oout/a.csv", "-j2", "-dcuda:1", "-i", "x", "-b4", "-v", "-q", "-h"});
  EXPECT_EQ(options.text("model"), "deit");
  EXPECT_EQ(options.text("output"), "out/a.csv");
  EXPECT_EQ(options.integer("workers"), 2);
  EXPECT_EQ(options.text("device"), "cuda:1");
  EXPECT_EQ(options.texts("input"), Words{"x"});
  EXPECT_EQ(options.integer("batch-size"), 4);
  EXPECT_TRUE(options.flag("verbose"));
  EXPECT_TRUE(options.flag("quiet"));
  EXPECT_TRUE(options.flag("usage"));
}

TEST(Options, RefuseLongNamesWithASingleDash) {
  EXPECT_ERROR(parsed({"-model", "x"}), invalid_argument, "unknown option -model", "mean `model`?");
  EXPECT_ERROR(parsed({"-img_size=2"}), invalid_argument, "mean `img_size`?");
}

TEST(Options, TakeListsSeparatedBySpacesOrCommas) {
  const std::vector<double> mean = {.485, .456, .406};
  for (const Words& words :
       {Words{"--mean", ".485", ".456", ".406", "a.jpg"},
        Words{"--mean", ".485,.456,.406", "a.jpg"}, Words{"--mean", ".485, .456, .406", "a.jpg"},
        Words{"--mean=.485,.456,.406", "a.jpg"}, Words{"a.jpg", "--mean", ".485,.456", ".406"}}) {
    const ParsedOptions options = parsed(words);
    EXPECT_EQ(options.numbers("mean"), mean) << words[1];
    EXPECT_EQ(options.positionals(), Words{"a.jpg"}) << words[1];
  }
}

TEST(Options, CountTheValuesOfAList) {
  EXPECT_ERROR(parsed({"--mean", ".1", ".2"}), invalid_argument, "expected 3 values, found 2",
               "`mean`");
  EXPECT_ERROR(parsed({"--mean", ".1", ".2", "--native"}), invalid_argument, "found 2");
  EXPECT_ERROR(parsed({"--mean", ".1,.2", "--", ".3"}), invalid_argument, "found 2");
  EXPECT_ERROR(parsed({"--mean=.1,.2,.3,.4"}), invalid_argument, "found 4");
  EXPECT_ERROR(parsed({"--mean=.1,,.3"}), invalid_argument, "empty", "`mean`");
}

TEST(Options, TakeNegativeNumbersForValues) {
  EXPECT_EQ(parsed({"--mean", "-.5", "-1e-2", "-3"}).numbers("mean"),
            (std::vector<double>{-.5, -1e-2, -3}));
  EXPECT_EQ(parsed({"--mean", "-1,-2,-3"}).numbers("mean"), (std::vector<double>{-1, -2, -3}));
  EXPECT_EQ(parsed({"--attn", "-5"}).text("attn"), "-5");
  EXPECT_ERROR(parsed({"--workers", "-5"}), invalid_argument, "at least 1, found -5");
}

TEST(Options, EndAtTheDoubleDash) {
  const Words rest = {"--native", "-v", "--", "-weird.jpg"};
  Words words = {"--recursive", "a", "--"};
  words.insert(words.end(), rest.begin(), rest.end());
  const ParsedOptions options = parsed(words);
  EXPECT_EQ(options.positionals(), (Words{"a", "--native", "-v", "--", "-weird.jpg"}));
  EXPECT_TRUE(options.flag("recursive"));
  EXPECT_FALSE(options.flag("native"));
  EXPECT_FALSE(options.flag("verbose"));
}

TEST(Options, LeavePositionalsAsTheyAre) {
  const Words names = {"a,b.jpg", "with space", "two\nlines", "\xff\xfe.png", "",
                       "-",       "@list.txt",  "k=v",        "**/*.jpg"};
  EXPECT_EQ(parsed(names).positionals(), names);
}

TEST(Options, LeaveValuesAsTheyAre) {
  for (const char* name :
       {"a,b.txt", "with space", "two\nlines", "\xff\xfe.txt", "k=v", "=", "-"}) {
    EXPECT_EQ(parsed({"--labels", name}).text("labels"), name);
    EXPECT_EQ(parsed({"--labels=" + std::string(name)}).text("labels"), name);
    EXPECT_EQ(parsed({"--input", name}).texts("input"), Words{name});
  }
  EXPECT_EQ(parsed({"--output=-x"}).text("output"), "-x");
}

TEST(Options, TakeWordsOfAnyLength) {
  const std::string long_word(1 << 20, 'a');
  EXPECT_EQ(parsed({"--attn=" + long_word}).text("attn"), long_word);
  EXPECT_EQ(parsed({long_word}).positionals(), Words{long_word});
  EXPECT_ERROR(parsed({"--" + long_word}), invalid_argument, "unknown option");
  EXPECT_ERROR(parsed({"-" + long_word}), invalid_argument, "unknown option");
}

TEST(Options, KeepTheOrderOfManyPositionals) {
  Words words;
  for (int i = 0; i < 5000; ++i) words.push_back(std::to_string(i));
  EXPECT_EQ(parsed(words).positionals(), words);
}

TEST(Flags, TakeNoSeparateValue) {
  const ParsedOptions options = parsed({"--recursive", "false"});
  EXPECT_TRUE(options.flag("recursive"));
  EXPECT_EQ(options.positionals(), Words{"false"});
}

TEST(Flags, TakeAWordAfterEquals) {
  for (const char* word : {"true", "yes", "1", "TRUE"}) {
    EXPECT_TRUE(parsed({"--recursive=" + std::string(word)}).flag("recursive")) << word;
  }
  for (const char* word : {"false", "no", "0", "No"}) {
    const ParsedOptions options = parsed({"--recursive=" + std::string(word)});
    EXPECT_FALSE(options.flag("recursive")) << word;
    EXPECT_TRUE(options.given("recursive")) << word;
  }
  EXPECT_FALSE(parsed({"-v", "-v=no"}).flag("verbose"));
  EXPECT_ERROR(parsed({"--recursive=maybe"}), invalid_argument, "true, false", "'maybe'",
               "`recursive`");
  EXPECT_ERROR(parsed({"--recursive="}), invalid_argument, "empty");
}

TEST(Flags, AreFalseUntilGiven) {
  const ParsedOptions options = parsed({});
  EXPECT_FALSE(options.flag("no-progress"));
  EXPECT_FALSE(options.given("no-progress"));
  EXPECT_TRUE(parsed({"--no-progress"}).flag("no-progress"));
  EXPECT_ERROR(parsed({"--progress"}), invalid_argument, "mean `no_progress`?");
}

TEST(Values, AreRequired) {
  EXPECT_ERROR(parsed({"--img-size"}), invalid_argument, "`img_size` needs a value");
  EXPECT_ERROR(parsed({"-b"}), invalid_argument, "-b needs a value");
  EXPECT_ERROR(parsed({"--img-size", "--"}), invalid_argument, "`img_size` needs a value");
  EXPECT_ERROR(parsed({"--img-size", "--native"}), invalid_argument, "found --native");
  EXPECT_ERROR(parsed({"-o", "-x.csv"}), invalid_argument, "written `output`=-x.csv");
  EXPECT_ERROR(parsed({"--attn="}), invalid_argument, "empty", "`attn`");
  EXPECT_ERROR(parsed({"--attn", ""}), invalid_argument, "empty", "`attn`");
}

TEST(Values, OfNumbersAreConsumedWhole) {
  EXPECT_ERROR(parsed({"--crop-pct", "0.5abc"}), invalid_argument, "a number", "'0.5abc'",
               "`crop_pct`");
  EXPECT_ERROR(parsed({"--crop-pct=1,5"}), invalid_argument, "a number", "'1,5'");
  EXPECT_ERROR(parsed({"-b", "8.0"}), invalid_argument, "an integer", "'8.0'", "`batch_size`");
  EXPECT_ERROR(parsed({"--mean", ".4", ".5x", ".6"}), invalid_argument, "a number", "'.5x'");
  EXPECT_ERROR(parsed({"--batch-size", "0"}), invalid_argument, "at least 1, found 0");
}

TEST(Values, OfClosedSetsAreChecked) {
  EXPECT_EQ(parsed({"--precision", "tf32"}).text("precision"), "tf32");
  EXPECT_ERROR(parsed({"--precision", "flot16"}), invalid_argument,
               "expected auto, float32, tf32, float16, bfloat16 or int8, found 'flot16'",
               "`precision`", "did you mean float16?");
  EXPECT_ERROR(parsed({"--format", "JSON"}), invalid_argument, "did you mean json?");
  EXPECT_ERROR(parsed({"--precision=double"}), invalid_argument, "'double'", "`precision`");
}

TEST(Values, OfScalarsAreTheLastOnesGiven) {
  EXPECT_EQ(parsed({"--img-size", "1", "--imgsz", "2"}).text("img-size"), "2");
  EXPECT_EQ(parsed({"--fp16", "--precision", "int8"}).text("precision"), "int8");
  EXPECT_EQ(parsed({"--precision", "int8", "--fp16"}).text("precision"), "float16");
  EXPECT_EQ(parsed({"--mean", "1", "2", "3", "--mean", "4,5,6"}).numbers("mean"),
            (std::vector<double>{4, 5, 6}));
  EXPECT_FALSE(parsed({"--native", "--native=no"}).flag("native"));
}

TEST(Values, OfRepeatablesKeepTheirOrder) {
  EXPECT_EQ(parsed({"-i", "c", "--source", "a,b", "x", "--data-dir=b"}).texts("input"),
            (Words{"c", "a,b", "b"}));
  EXPECT_EQ(parsed({"--attn-opt", "a.b=1", "--attn_opt=c.d=2"}).texts("attn-opt"),
            (Words{"a.b=1", "c.d=2"}));
}

TEST(Aliases, SetTheirOption) {
  const ParsedOptions options = parsed({"--arch", "deit", "--imgsz=96", "--class-map", "l"});
  EXPECT_EQ(options.text("model"), "deit");
  EXPECT_EQ(options.text("img-size"), "96");
  EXPECT_EQ(options.text("labels"), "l");
}

TEST(Aliases, MayImplyTheValue) {
  EXPECT_EQ(parsed({"--fp16", "x"}).text("precision"), "float16");
  EXPECT_EQ(parsed({"--fp16", "x"}).positionals(), Words{"x"});
  EXPECT_EQ(parsed({"--bf16"}).text("precision"), "bfloat16");
  EXPECT_EQ(parsed({"--strict"}).text("on-error"), "fail");
  EXPECT_ERROR(parsed({"--fp16=true"}), invalid_argument, "`fp16` takes no value",
               "`precision` float16");
}

TEST(UnknownOptions, AreErrorsWithTheNearestName) {
  EXPECT_ERROR(parsed({"--img-siz", "2"}), invalid_argument, "unknown option `img_siz`",
               "did you mean `img_size`?");
  EXPECT_ERROR(parsed({"--im_size=2"}), invalid_argument, "unknown option `im_size`",
               "did you mean `img_size`?");
  EXPECT_ERROR(parsed({"--interp", "x"}), invalid_argument, "did you mean `interpolation`?");
  EXPECT_ERROR(parsed({"--bf61"}), invalid_argument, "did you mean `bf16`?");
}

TEST(UnknownOptions, AreErrorsWithoutANeighbourToo) {
  for (const char* word : {"--temperature", "---", "--=x", "-Z", "-vZ", "-7", "-weird name.jpg"}) {
    EXPECT_ERROR(parsed({word}), invalid_argument, "unknown option", "help classify");
  }
}

TEST(Positionals, AreRefusedByCommandsWithoutAny) {
  CommandSpec version = {.name = "version", .summary = "", .options = general_options()};
  EXPECT_NO_THROW(parse(version, Words{"-v"}));
  EXPECT_ERROR(parse(version, Words{"x"}), invalid_argument, "no further argument, found 'x'",
               "version");
}

TEST(Positionals, BeginWithTheSubcommandWhereThereAreSome) {
  const CommandSpec models = {
      .name = "models",
      .summary = "",
      .subcommands = {{.name = "list"}, {.name = "info", .positionals = "[NAME]"}}};
  EXPECT_EQ(parse(models, Words{"list"}).positionals(), Words{"list"});
  EXPECT_NO_THROW(parse(models, Words{}));
  EXPECT_ERROR(parse(models, Words{"lst"}), invalid_argument, "expected list or info, found 'lst'",
               "did you mean list?");
  EXPECT_ERROR(parse(models, Words{"list", "x"}), invalid_argument, "'x'", "models list");
  EXPECT_EQ(parse(models, Words{"info", "x"}).positionals(), (Words{"info", "x"}));
}

TEST(Subcommands, RefuseOptionsOfOthers) {
  const CommandSpec models = {
      .name = "models",
      .summary = "",
      .options = {{.name = "seed", .subcommands = {"create"}},
                  {.name = "attn", .subcommands = {"info", "create"}},
                  {.name = "format"}},
      .subcommands = {{.name = "list"}, {.name = "info"}, {.name = "create"}}};
  EXPECT_NO_THROW(parse(models, Words{"create", "--seed", "1", "--attn", "x", "--format", "y"}));
  EXPECT_NO_THROW(parse(models, Words{"--format", "y", "list"}));
  EXPECT_ERROR(parse(models, Words{"info", "--seed", "1"}), invalid_argument, "takes no `seed`",
               "models info", "models create does");
  EXPECT_ERROR(parse(models, Words{"--attn=x", "list"}), invalid_argument, "takes no `attn`",
               "models list", "models info and models create do");
}

TEST(ConfigFiles, AreLeftAloneWhereThatIsAsked) {
  const CommandSpec command = {.name = "x", .summary = "", .options = general_options()};
  const Words words{"--config", "/nonexistent"};
  EXPECT_ERROR(parse(command, words), invalid_argument, "cannot read");
  EXPECT_EQ(parse(command, words, ConfigFile::left_alone).text("config"), "/nonexistent");
}

TEST(CommaLists, CheckEveryMember) {
  const CommandSpec benchmark = {
      .name = "benchmark",
      .summary = "",
      .options = {{.name = "batch", .kind = ValueKind::integer, .comma_list = true, .minimum = 1},
                  {.name = "dtype", .choices = {"float32", "float16"}, .comma_list = true}}};
  const ParsedOptions options = parse(benchmark, Words{"--batch", "1,8,32", "--dtype=float16"});
  EXPECT_EQ(options.integers("batch"), (std::vector<std::int64_t>{1, 8, 32}));
  EXPECT_EQ(options.texts("dtype"), Words{"float16"});
  EXPECT_ERROR(parse(benchmark, Words{"--batch=1,0"}), invalid_argument, "at least 1");
  EXPECT_ERROR(parse(benchmark, Words{"--batch=1,x"}), invalid_argument, "'x'");
  EXPECT_ERROR(parse(benchmark, Words{"--dtype=float32,int8"}), invalid_argument, "'int8'");
}

TEST(ParsedOptions, KnowWhereAValueCameFrom) {
  const ParsedOptions options = parsed({"--imgsz=2", "--fp16"});
  EXPECT_EQ(options.origin("img-size"), "`imgsz`");
  EXPECT_EQ(options.origin("precision"), "`fp16`");
  EXPECT_EQ(options.source("precision"), Source::command_line);
  EXPECT_TRUE(options.given("precision"));
  EXPECT_EQ(options.origin("kernels"), "`kernels`");
  EXPECT_EQ(options.source("kernels"), Source::default_value);
  EXPECT_FALSE(options.given("kernels"));
}

TEST(ParsedOptions, AreEmptyWhenUnset) {
  const ParsedOptions options = parsed({});
  EXPECT_EQ(options.text("img-size"), "");
  EXPECT_TRUE(options.texts("mean").empty());
  EXPECT_TRUE(options.numbers("mean").empty());
  EXPECT_TRUE(options.positionals().empty());
  EXPECT_ERROR(static_cast<void>(options.integer("batch-size")), internal, "--batch-size");
  EXPECT_ERROR(static_cast<void>(options.number("crop-pct")), internal, "--crop-pct");
}

TEST(ParsedOptions, ReadNumbersInText) {
  EXPECT_EQ(parsed({"--img-size", "224"}).integer("img-size"), 224);
  EXPECT_ERROR(static_cast<void>(parsed({"--imgsz=2x3"}).integer("img-size")), invalid_argument,
               "'2x3'", "`imgsz`");
}

TEST(ParsedOptions, RefuseProgrammingErrors) {
  const ParsedOptions options = parsed({});
  EXPECT_ERROR(static_cast<void>(options.text("no-such-thing")), internal, "--no-such-thing");
  EXPECT_ERROR(static_cast<void>(options.given("imgsz")), internal, "--imgsz");
  EXPECT_ERROR(static_cast<void>(options.text("mean")), internal, "texts()");
  EXPECT_ERROR(static_cast<void>(options.flag("model")), internal, "no flag");
}

}  // namespace options_test
}  // namespace hydrascope::app
