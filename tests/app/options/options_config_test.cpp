// --config and --dump-config.
#include "app/options/option_builders.h"
#include "app/options/options.h"
#include "tests/app/options/small_command.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace hydrascope::app {
namespace options_config_test {

using Words = std::vector<std::string>;

using testing::classify;

class OptionsConfig : public ::testing::Test {
 protected:
  /// `words` parsed after `--config FILE` with that text.
  ParsedOptions parsed(const std::string& text, Words words = {}) const {
    words.insert(words.begin(), {"--config", folder_.write("my.json", text).string()});
    return parse(classify(), words);
  }

  hydrascope::testing::TemporaryFolder folder_;
};

TEST_F(OptionsConfig, ReadsEveryKindOfValue) {
  const ParsedOptions options = parsed(R"({"model": "deit", "batch_size": 8, "crop-pct": 0.9,
      "recursive": true, "mean": [0.5, 0.25, 1], "attn-opt": ["a.b=1", "c.d=2"], "img-size": 224,
      "seed": 7, "progress": false})");
  EXPECT_EQ(options.named("model").text(), "deit");
  EXPECT_EQ(options.named("batch-size").integer(), 8);
  EXPECT_EQ(options.named("crop-pct").number(), 0.9);
  EXPECT_TRUE(options.named("recursive").flag());
  EXPECT_EQ(options.named("mean").numbers(), (std::vector<double>{0.5, 0.25, 1}));
  EXPECT_EQ(options.named("attn-opt").values, (Words{"a.b=1", "c.d=2"}));
  EXPECT_EQ(options.named("img-size").integer(), 224);
  EXPECT_EQ(options.named("seed").integer(), 7);
  EXPECT_FALSE(options.named("progress").flag());
  EXPECT_EQ(options.named("seed").source, Source::config_file);
  EXPECT_EQ(options.named("seed").origin, "my.json");
  EXPECT_TRUE(options.named("seed").given());
  EXPECT_FALSE(options.named("workers").given());
}

TEST_F(OptionsConfig, YieldsToFlagsWhereverTheyStand) {
  const std::string file =
      folder_.write("a.json", R"({"seed": 7, "input": ["x", "y"], "recursive": true})").string();
  const ParsedOptions options =
      parse(classify(), Words{"--set", "seed=8", "-i", "z", "-c", file, "--recursive=no"});
  EXPECT_EQ(options.named("seed").integer(), 8);
  EXPECT_EQ(options.named("input").values, Words{"z"});
  EXPECT_FALSE(options.named("recursive").flag());
  EXPECT_EQ(options.named("seed").origin, "`seed`");
}

TEST_F(OptionsConfig, AnArchitectureDoesNotReplaceAModel) {
  EXPECT_ERROR(parsed(R"({"model": "a.safetensors"})", {"--arch", "deit"}), invalid_argument,
               "one option has two values, deit and a.safetensors", "`arch` with my.json");
  EXPECT_ERROR(parsed(R"({"arch": "deit"})", {"-m", "a.safetensors"}), invalid_argument,
               "`model` with my.json");
  EXPECT_EQ(parsed(R"({"arch": "deit"})", {"-m", "deit"}).named("model").text(), "deit");
  EXPECT_EQ(parsed(R"({"arch": "a"})", {"--arch", "b"}).named("model").text(), "b");
  EXPECT_EQ(parsed(R"({"model": "a"})", {"-m", "b"}).named("model").text(), "b");
  EXPECT_EQ(parsed(R"({"imgsz": 96})", {"--img-size", "64"}).named("img-size").text(), "64");
}

TEST_F(OptionsConfig, KnowsAliases) {
  EXPECT_EQ(parsed(R"({"imgsz": 96})").named("img-size").text(), "96");
  EXPECT_EQ(parsed(R"({"fp16": true})").named("precision").text(), "float16");
  EXPECT_EQ(parsed(R"({"source": "a,b"})").named("input").values, Words{"a,b"});
  EXPECT_ERROR(parsed(R"({"fp16": false})"), invalid_argument, "expected true", "my.json: fp16");
}

TEST_F(OptionsConfig, RefusesUnknownKeysWithTheNearestName) {
  EXPECT_ERROR(parsed(R"({"bach_size": 8})"), invalid_argument, "unknown key 'bach_size'",
               "my.json", "did you mean batch-size?");
  EXPECT_ERROR(parsed(R"({"command": "classify"})"), invalid_argument, "unknown key 'command'");
}

TEST_F(OptionsConfig, RefusesWhatSteersConfigurations) {
  EXPECT_ERROR(parsed(R"({"config": "b.json"})"), invalid_argument, "'config'", "my.json");
  EXPECT_ERROR(parsed(R"({"dump_config": true})"), invalid_argument, "'dump_config'", "my.json");
  EXPECT_ERROR(parsed(R"({"help": true})"), invalid_argument, "'help'", "my.json");
}

TEST_F(OptionsConfig, NamesWrongTypes) {
  EXPECT_ERROR(parsed(R"({"batch-size": "8"})"), invalid_argument,
               "expected an integer, found a string", "my.json: batch-size");
  EXPECT_ERROR(parsed(R"({"batch-size": 8.5})"), invalid_argument,
               "expected an integer, found 8.5");
  EXPECT_ERROR(parsed(R"({"crop-pct": true})"), invalid_argument, "expected a number",
               "my.json: crop-pct");
  EXPECT_ERROR(parsed(R"({"recursive": "yes"})"), invalid_argument, "expected true or false");
  EXPECT_ERROR(parsed(R"({"recursive": 1})"), invalid_argument, "expected true or false, found 1");
  EXPECT_ERROR(parsed(R"({"model": ["a"]})"), invalid_argument,
               "expected a string, found an array");
  EXPECT_ERROR(parsed(R"({"model": null})"), invalid_argument, "found null");
  EXPECT_ERROR(parsed(R"({"model": {}})"), invalid_argument, "found an object");
  EXPECT_ERROR(parsed(R"({"model": true})"), invalid_argument, "expected a string");
  EXPECT_ERROR(parsed(R"({"mean": [1, 2, [3]]})"), invalid_argument, "found an array");
}

TEST_F(OptionsConfig, ChecksValuesLikeTheCommandLine) {
  EXPECT_ERROR(parsed(R"({"fit": "pat"})"), invalid_argument, "pad, crop or resize", "my.json: fit",
               "did you mean pad?");
  EXPECT_ERROR(parsed(R"({"batch-size": 0})"), invalid_argument, "at least 1");
  EXPECT_ERROR(parsed(R"({"seed": 18446744073709551615})"), invalid_argument, "64 bits");
  EXPECT_ERROR(parsed(R"({"mean": [1, 2]})"), invalid_argument, "expected 3 values, found 2");
  EXPECT_ERROR(parsed(R"({"mean": 1})"), invalid_argument, "expected 3 values, found 1");
  EXPECT_ERROR(parsed(R"({"attn": ""})"), invalid_argument, "empty");
  EXPECT_ERROR(parsed(R"({"output": "a\u0000b"})"), invalid_argument, "NUL");
}

TEST_F(OptionsConfig, RefusesOptionsSetTwice) {
  EXPECT_ERROR(parsed(R"({"seed": 1, "seed": 2})"), invalid_argument, "'seed' is given twice");
  EXPECT_ERROR(parsed(R"({"img_size": 1, "imgsz": 2})"), invalid_argument, "second time");
  EXPECT_ERROR(parsed(R"({"precision": "int8", "fp16": true})"), invalid_argument, "second time");
}

TEST_F(OptionsConfig, RefusesWhatIsNoJsonObject) {
  EXPECT_ERROR(parsed(R"({"seed": })"), invalid_argument, "not valid JSON: parse error", "my.json");
  EXPECT_ERROR(parsed(""), invalid_argument, "not valid JSON");
  EXPECT_ERROR(parsed("{\"model\": \"\xff\"}"), invalid_argument, "not valid JSON");
  EXPECT_ERROR(parsed(R"({"crop-pct": 1e999})"), invalid_argument, "not valid JSON");
  EXPECT_ERROR(parsed("[1]"), invalid_argument, "expected a JSON object, found an array");
  EXPECT_ERROR(parsed(std::string(500000, '[')), invalid_argument, "not valid JSON");
  EXPECT_ERROR(parsed(std::string((1 << 20) + 1, ' ')), invalid_argument, "1 MiB");
}

TEST_F(OptionsConfig, RefusesFilesItCannotRead) {
  const std::string missing = (folder_.path() / "none.json").string();
  EXPECT_ERROR(parse(classify(), Words{"-c", missing}), invalid_argument, "cannot read",
               "none.json");
  EXPECT_ERROR(parse(classify(), Words{"-c", folder_.path().string()}), invalid_argument,
               "cannot read");
}

TEST_F(OptionsConfig, DumpsWhatHasAValue) {
  const ParsedOptions options =
      parse(classify(), Words{"--set", "mean=.485,.456,.406", "--fp16", "-i", "x", "--recursive",
                              "--dump-config", "-h", "--set", "attn-opt=a.b=1", "y"});
  const auto json = nlohmann::json::parse(options.dump_config());
  EXPECT_EQ(json["mean"], nlohmann::json({0.485, 0.456, 0.406}));
  EXPECT_EQ(json["precision"], "float16");
  EXPECT_EQ(json["attn-opt"], nlohmann::json({"a.b=1"}));
  EXPECT_EQ(json["recursive"], true);
  EXPECT_EQ(json["seed"], 42);
  for (const char* name : {"input", "config", "dump-config", "help", "img-size", "verbose"}) {
    EXPECT_FALSE(json.contains(name)) << name;
  }
}

TEST_F(OptionsConfig, ReadsBackWhatItDumped) {
  const ParsedOptions first = parse(
      classify(), Words{"-m", "a \"b\"\n\xc3\xa9", "--set", "crop-pct=0.1", "--set",
                        "mean=.485,1e-7,-3", "--set", "attn-opt=a.b=1", "--recursive", "--set",
                        "attn-opt=c,d=2", "--set", "on-error=fail", "--img-size", "0224"});
  const ParsedOptions second = parsed(first.dump_config());
  EXPECT_EQ(second.dump_config(), first.dump_config());
  EXPECT_EQ(second.named("model").text(), first.named("model").text());
  EXPECT_EQ(second.named("mean").numbers(), first.named("mean").numbers());
  EXPECT_EQ(second.named("crop-pct").number(), 0.1);
  EXPECT_EQ(second.named("attn-opt").values, first.named("attn-opt").values);
  EXPECT_EQ(second.named("img-size").text(), "0224");
}

TEST_F(OptionsConfig, RefusesToDumpBytesThatJsonCannotHold) {
  const ParsedOptions options = parse(classify(), Words{"--labels", "\xff.txt"});
  EXPECT_ERROR(static_cast<void>(options.dump_config()), invalid_argument, "UTF-8", "`labels`");
}

}  // namespace options_config_test
}  // namespace hydrascope::app
