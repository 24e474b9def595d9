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
  EXPECT_EQ(parsed({"--img-size", "384"}).named("img-size").text(), "384");
  EXPECT_EQ(parsed({"--img-size=384"}).named("img-size").text(), "384");
  EXPECT_EQ(parsed({"--set=attn-opt=hydra.eps=1e-6"}).named("attn-opt").values,
            Words{"hydra.eps=1e-6"});
}

TEST(Options, TreatUnderscoreAndMinusAlikeInNamesOnly) {
  EXPECT_EQ(parsed({"--img_size", "a_b"}).named("img-size").text(), "a_b");
  EXPECT_EQ(parsed({"--img_size=a_b"}).named("img-size").text(), "a_b");
  EXPECT_FALSE(parsed({"--set", "run.progress=off"}).named("progress").flag());
  EXPECT_EQ(parsed({"--class_map=x_y"}).named("labels").text(), "x_y");
  EXPECT_EQ(parsed({"a_b"}).positionals(), Words{"a_b"});
}

TEST(Options, ReadShortNamesSeparateJoinedAndWithEquals) {
  for (const Words& words : {Words{"-b", "8"}, Words{"-b8"}, Words{"-b=8"}, Words{"-vb8"},
                             Words{"-vqb", "8"}, Words{"-b=+8"}}) {
    EXPECT_EQ(parsed(words).named("batch-size").integer(), 8) << words[0];
  }
}

TEST(Options, KnowEveryShortNameOfTheContract) {
  const ParsedOptions options =
      parsed({"-m", "deit", "-oout/a.csv", "-dcuda:1", "-i", "x", "-b4", "-v", "-q", "-h"});
  EXPECT_EQ(options.named("model").text(), "deit");
  EXPECT_EQ(options.named("output").text(), "out/a.csv");
  EXPECT_EQ(options.named("device").text(), "cuda:1");
  EXPECT_EQ(options.named("input").values, Words{"x"});
  EXPECT_EQ(options.named("batch-size").integer(), 4);
  EXPECT_TRUE(options.named("verbose").flag());
  EXPECT_TRUE(options.named("quiet").flag());
  EXPECT_TRUE(options.named("usage").flag());
}

TEST(Options, RefuseLongNamesWithASingleDash) {
  EXPECT_ERROR(parsed({"-model", "x"}), invalid_argument, "unknown option -model", "mean `model`?");
  EXPECT_ERROR(parsed({"-img_size=2"}), invalid_argument, "mean `img_size`?");
}

TEST(Options, TakeListsSeparatedByCommas) {
  const std::vector<double> mean = {.485, .456, .406};
  for (const Words& words : {Words{"--set", "mean=.485,.456,.406", "a.jpg"},
                             Words{"--set", "mean=.485, .456, .406", "a.jpg"},
                             Words{"--set=mean=.485,.456,.406", "a.jpg"}}) {
    const ParsedOptions options = parsed(words);
    EXPECT_EQ(options.named("mean").numbers(), mean) << words[1];
    EXPECT_EQ(options.positionals(), Words{"a.jpg"}) << words[1];
  }
}

TEST(Options, CountTheValuesOfAList) {
  EXPECT_ERROR(parsed({"--set", "mean=.1,.2"}), invalid_argument, "expected 3 values, found 2",
               "`mean`");
  EXPECT_ERROR(parsed({"--set", "mean=.1,.2", "--", ".3"}), invalid_argument, "found 2");
  EXPECT_ERROR(parsed({"--set=mean=.1,.2,.3,.4"}), invalid_argument, "found 4");
  EXPECT_ERROR(parsed({"--set=mean=.1,,.3"}), invalid_argument, "empty", "`mean`");
}

TEST(Options, TakeNegativeNumbersForValues) {
  EXPECT_EQ(parsed({"--set", "mean=-.5,-1e-2,-3"}).named("mean").numbers(),
            (std::vector<double>{-.5, -1e-2, -3}));
  EXPECT_EQ(parsed({"--set", "mean=-1,-2,-3"}).named("mean").numbers(),
            (std::vector<double>{-1, -2, -3}));
  EXPECT_EQ(parsed({"--attn", "-5"}).named("attn").text(), "-5");
  EXPECT_ERROR(parsed({"--threads", "-5"}), invalid_argument, "at least 1, found -5");
}

TEST(Options, EndAtTheDoubleDash) {
  const Words rest = {"--recursive", "-v", "--", "-weird.jpg"};
  Words words = {"--recursive", "a", "--"};
  words.insert(words.end(), rest.begin(), rest.end());
  const ParsedOptions options = parsed(words);
  EXPECT_EQ(options.positionals(), (Words{"a", "--recursive", "-v", "--", "-weird.jpg"}));
  EXPECT_TRUE(options.named("recursive").flag());
  EXPECT_FALSE(options.named("verbose").flag());
}

TEST(Options, LeavePositionalsAsTheyAre) {
  const Words names = {"a,b.jpg", "with space", "two\nlines", "\xff\xfe.png", "",
                       "-",       "@list.txt",  "k=v",        "**/*.jpg"};
  EXPECT_EQ(parsed(names).positionals(), names);
}

TEST(Options, LeaveValuesAsTheyAre) {
  for (const char* name :
       {"a,b.txt", "with space", "two\nlines", "\xff\xfe.txt", "k=v", "=", "-"}) {
    EXPECT_EQ(parsed({"--labels", name}).named("labels").text(), name);
    EXPECT_EQ(parsed({"--labels=" + std::string(name)}).named("labels").text(), name);
    EXPECT_EQ(parsed({"--input", name}).named("input").values, Words{name});
  }
  EXPECT_EQ(parsed({"--output=-x"}).named("output").text(), "-x");
}

TEST(Options, TakeWordsOfAnyLength) {
  const std::string long_word(1 << 20, 'a');
  EXPECT_EQ(parsed({"--attn=" + long_word}).named("attn").text(), long_word);
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
  EXPECT_TRUE(options.named("recursive").flag());
  EXPECT_EQ(options.positionals(), Words{"false"});
}

TEST(Flags, TakeAWordAfterEquals) {
  for (const char* word : {"true", "yes", "1", "TRUE"}) {
    EXPECT_TRUE(parsed({"--recursive=" + std::string(word)}).named("recursive").flag()) << word;
  }
  for (const char* word : {"false", "no", "0", "No"}) {
    const ParsedOptions options = parsed({"--recursive=" + std::string(word)});
    EXPECT_FALSE(options.named("recursive").flag()) << word;
    EXPECT_TRUE(options.named("recursive").given()) << word;
  }
  EXPECT_FALSE(parsed({"-v", "-v=no"}).named("verbose").flag());
  EXPECT_ERROR(parsed({"--recursive=maybe"}), invalid_argument, "true, false", "'maybe'",
               "`recursive`");
  EXPECT_ERROR(parsed({"--recursive="}), invalid_argument, "empty");
}

TEST(Flags, AreFalseUntilGiven) {
  const ParsedOptions options = parsed({});
  EXPECT_FALSE(options.named("quiet").flag());
  EXPECT_FALSE(options.named("quiet").given());
  EXPECT_TRUE(parsed({"--quiet"}).named("quiet").flag());
  EXPECT_ERROR(parsed({"--quite"}), invalid_argument, "mean `quiet`?");
}

TEST(Values, AreRequired) {
  EXPECT_ERROR(parsed({"--img-size"}), invalid_argument, "`img_size` needs a value");
  EXPECT_ERROR(parsed({"-b"}), invalid_argument, "-b needs a value");
  EXPECT_ERROR(parsed({"--img-size", "--"}), invalid_argument, "`img_size` needs a value");
  EXPECT_ERROR(parsed({"--img-size", "--recursive"}), invalid_argument, "found --recursive");
  EXPECT_ERROR(parsed({"-o", "-x.csv"}), invalid_argument, "written `output`=-x.csv");
  EXPECT_ERROR(parsed({"--attn="}), invalid_argument, "empty", "`attn`");
  EXPECT_ERROR(parsed({"--attn", ""}), invalid_argument, "empty", "`attn`");
}

TEST(Values, OfNumbersAreConsumedWhole) {
  EXPECT_ERROR(parsed({"--set", "crop-pct=0.5abc"}), invalid_argument, "a number", "'0.5abc'",
               "`crop_pct`");
  EXPECT_ERROR(parsed({"--set", "crop-pct=1,5"}), invalid_argument, "a number", "'1,5'");
  EXPECT_ERROR(parsed({"-b", "8.0"}), invalid_argument, "an integer", "'8.0'", "`batch_size`");
  EXPECT_ERROR(parsed({"--set", "mean=.4,.5x,.6"}), invalid_argument, "a number", "'.5x'");
  EXPECT_ERROR(parsed({"--batch-size", "0"}), invalid_argument, "at least 1, found 0");
}

TEST(Values, OfClosedSetsAreChecked) {
  EXPECT_EQ(parsed({"--precision", "tf32"}).named("precision").text(), "tf32");
  EXPECT_ERROR(parsed({"--precision", "flot16"}), invalid_argument,
               "expected auto, float32, tf32, float16, bfloat16 or int8, found 'flot16'",
               "`precision`", "did you mean float16?");
  EXPECT_ERROR(parsed({"--format", "JSON"}), invalid_argument, "did you mean json?");
  EXPECT_ERROR(parsed({"--precision=double"}), invalid_argument, "'double'", "`precision`");
}

TEST(Values, OfScalarsAreTheLastOnesGiven) {
  EXPECT_EQ(parsed({"--img-size", "1", "--img_size=2"}).named("img-size").text(), "2");
  EXPECT_EQ(parsed({"-m", "a", "--model", "b"}).named("model").text(), "b");
  EXPECT_EQ(parsed({"--set", "mean=1,2,3", "--set", "mean=4,5,6"}).named("mean").numbers(),
            (std::vector<double>{4, 5, 6}));
  EXPECT_FALSE(parsed({"--recursive", "--recursive=no"}).named("recursive").flag());
}

TEST(Values, OfTwoNamesOfOneOptionAreTheSame) {
  EXPECT_EQ(parsed({"--fp16", "--precision", "fp16"}).named("precision").text(), "float16");
  EXPECT_EQ(parsed({"--imgsz=2", "--img-size", "2"}).named("img-size").text(), "2");
  EXPECT_ERROR(parsed({"-m", "out.safetensors", "--arch", "deit"}), invalid_argument,
               "two values, out.safetensors and deit", "`model` with `arch`");
  EXPECT_ERROR(parsed({"--img-size", "1", "--imgsz", "2"}), invalid_argument, "1 and 2",
               "`img_size` with `imgsz`");
  EXPECT_ERROR(parsed({"--fp16", "--bf16"}), invalid_argument, "`fp16` with `bf16`");
  // Neither name's earlier value is lost behind an equal one of the other.
  for (const Words& words : {Words{"--fp16", "--precision=fp16", "--precision=int8"},
                             Words{"--precision=fp16", "--fp16", "--precision=int8"}})
    EXPECT_ERROR(parsed(words), invalid_argument, "float16 and int8", "`precision`", "`fp16`");
}

TEST(Values, OfRepeatablesKeepTheirOrder) {
  EXPECT_EQ(parsed({"-i", "c", "--source", "a,b", "x", "--data-dir=b"}).named("input").values,
            (Words{"c", "a,b", "b"}));
  EXPECT_EQ(parsed({"--set", "attn-opt=a.b=1", "--set=attn_opt=c.d=2"}).named("attn-opt").values,
            (Words{"a.b=1", "c.d=2"}));
}

TEST(Aliases, SetTheirOption) {
  const ParsedOptions options = parsed({"--arch", "deit", "--imgsz=96", "--class-map", "l"});
  EXPECT_EQ(options.named("model").text(), "deit");
  EXPECT_EQ(options.named("img-size").text(), "96");
  EXPECT_EQ(options.named("labels").text(), "l");
}

TEST(Aliases, MayImplyTheValue) {
  EXPECT_EQ(parsed({"--fp16", "x"}).named("precision").text(), "float16");
  EXPECT_EQ(parsed({"--fp16", "x"}).positionals(), Words{"x"});
  EXPECT_EQ(parsed({"--bf16"}).named("precision").text(), "bfloat16");
  EXPECT_ERROR(parsed({"--fp16=true"}), invalid_argument, "`fp16` takes no value",
               "`precision` float16");
}

TEST(UnknownOptions, AreErrorsWithTheNearestName) {
  EXPECT_ERROR(parsed({"--img-siz", "2"}), invalid_argument, "unknown option `img_siz`",
               "did you mean `img_size`?");
  EXPECT_ERROR(parsed({"--im_size=2"}), invalid_argument, "unknown option `im_size`",
               "did you mean `img_size`?");
  EXPECT_ERROR(parsed({"--set", "interpolaton=x"}), invalid_argument, "mean interpolation?");
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

TEST(ConfigFiles, AreLeftAloneByTheWords) {
  const CommandSpec command = {.name = "x", .summary = "", .options = general_options()};
  const Words words{"--config", "/nonexistent"};
  EXPECT_ERROR(parse(command, words), invalid_argument, "cannot read");
  EXPECT_EQ(parse_words(command, words).named("config").text(), "/nonexistent");
}

TEST(CommaLists, CheckEveryMember) {
  const CommandSpec benchmark = {
      .name = "benchmark",
      .summary = "",
      .options = {{.name = "batch", .kind = ValueKind::integer, .comma_list = true, .minimum = 1},
                  {.name = "dtype", .choices = {"float32", "float16"}, .comma_list = true}}};
  const ParsedOptions options = parse(benchmark, Words{"--batch", "1,8,32", "--dtype=float16"});
  EXPECT_EQ(options.named("batch").integers(), (std::vector<std::int64_t>{1, 8, 32}));
  EXPECT_EQ(options.named("dtype").values, Words{"float16"});
  EXPECT_ERROR(parse(benchmark, Words{"--batch=1,0"}), invalid_argument, "at least 1");
  EXPECT_ERROR(parse(benchmark, Words{"--batch=1,x"}), invalid_argument, "'x'");
  EXPECT_ERROR(parse(benchmark, Words{"--dtype=float32,int8"}), invalid_argument, "'int8'");
}

TEST(ParsedOptions, KnowWhereAValueCameFrom) {
  const ParsedOptions options = parsed({"--imgsz=2", "--fp16"});
  EXPECT_EQ(options.named("img-size").origin, "`imgsz`");
  EXPECT_EQ(options.named("precision").origin, "`fp16`");
  EXPECT_EQ(options.named("precision").source, Source::command_line);
  EXPECT_TRUE(options.named("precision").given());
  EXPECT_EQ(options.named("kernels").origin, "`kernels`");
  EXPECT_EQ(options.named("kernels").source, Source::default_value);
  EXPECT_FALSE(options.named("kernels").given());
}

TEST(ParsedOptions, AreEmptyWhenUnset) {
  const ParsedOptions options = parsed({});
  EXPECT_EQ(options.named("img-size").text(), "");
  EXPECT_TRUE(options.named("mean").values.empty());
  EXPECT_TRUE(options.named("mean").numbers().empty());
  EXPECT_TRUE(options.positionals().empty());
  EXPECT_ERROR(static_cast<void>(options.named("batch-size").integer()), internal, "--batch-size");
  EXPECT_ERROR(static_cast<void>(options.named("crop-pct").number()), internal, "--crop-pct");
}

TEST(ParsedOptions, ReadNumbersInText) {
  EXPECT_EQ(parsed({"--img-size", "224"}).named("img-size").integer(), 224);
  EXPECT_ERROR(static_cast<void>(parsed({"--imgsz=2x3"}).named("img-size").integer()),
               invalid_argument, "'2x3'", "`imgsz`");
}

TEST(ParsedOptions, RefuseProgrammingErrors) {
  const ParsedOptions options = parsed({});
  EXPECT_ERROR(static_cast<void>(options.named("no-such-thing").text()), internal,
               "--no-such-thing");
  EXPECT_ERROR(static_cast<void>(options.named("imgsz").given()), internal, "--imgsz");
  EXPECT_ERROR(static_cast<void>(options.named("mean").text()), internal, "ask `values`");
  EXPECT_ERROR(static_cast<void>(options.named("model").flag()), internal, "no flag");
}

}  // namespace options_test
}  // namespace hydrascope::app
