// The groups against the contract of the command line, both columns of its table.
#include "app/options/option_table.h"
#include "app/options/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace shared_options_test {

using Words = std::vector<std::string>;

CommandSpec everything() {
  return {
      .name = "all",
      .summary = "",
      .options = join({model_options(), input_options(), preprocessing_options(), runtime_options(),
                       output_options(), label_options(), general_options()})};
}

struct Row {
  std::string name;
  char short_name;
  Words also;
};

const std::vector<Row> kContract = {
    {"model", 'm', {"arch"}},
    {"checkpoint", 0, {}},
    {"use-ema", 0, {}},
    {"attn", 0, {}},
    {"attn-opt", 0, {}},
    {"rel-pos", 0, {}},
    {"rel-pos-opt", 0, {}},
    {"pos-embed", 0, {}},
    {"pos-interp", 0, {}},
    {"overview", 0, {}},
    {"coarse-exits", 0, {}},
    {"exit-rule", 0, {}},
    {"exit-threshold", 0, {}},
    {"recursive", 0, {}},
    {"on-error", 0, {"strict"}},
    {"max-pixels", 0, {}},
    {"max-bytes", 0, {}},
    {"img-size", 0, {"imgsz"}},
    {"fit", 0, {}},
    {"crop-pct", 0, {}},
    {"crop-mode", 0, {}},
    {"interpolation", 0, {}},
    {"mean", 0, {}},
    {"std", 0, {}},
    {"exif", 0, {}},
    {"print-transform", 0, {}},
    {"native", 0, {}},
    {"batch-size", 'b', {}},
    {"workers", 'j', {}},
    {"threads", 0, {}},
    {"device", 'd', {}},
    {"precision", 0, {"fp16", "bf16"}},
    {"calibration", 0, {}},
    {"kernels", 0, {}},
    {"seed", 0, {}},
    {"deterministic", 0, {}},
    {"output", 'o', {}},
    {"format", 0, {}},
    {"labels", 0, {"class-map"}},
    {"label-type", 0, {}},
    {"config", 'c', {}},
    {"dump-config", 0, {}},
    {"verbose", 'v', {}},
    {"quiet", 'q', {}},
    {"no-progress", 0, {}},
    {"color", 0, {}},
    {"usage", 'h', {}},
    {"help", 0, {}},
};

TEST(SharedOptions, AreTheContract) {
  const CommandSpec command = everything();
  ASSERT_EQ(command.options.size(), kContract.size());
  for (std::size_t i = 0; i < kContract.size(); ++i) {
    const Option& option = command.options[i];
    EXPECT_EQ(option.name, kContract[i].name);
    EXPECT_EQ(option.short_name, kContract[i].short_name) << option.name;
    Words also;
    for (const OptionAlias& alias : option.aliases) also.push_back(alias.name);
    EXPECT_EQ(also, kContract[i].also) << option.name;
    EXPECT_FALSE(option.group.empty()) << option.name;
    EXPECT_FALSE(option.help.empty()) << option.name;
  }
}

TEST(SharedOptions, HaveTheChoicesAndDefaultsOfTheContract) {
  struct Expected {
    std::string name;
    Words choices;
    std::string default_value;
  };
  const std::vector<Expected> table = {
      {"pos-interp", {"timm", "hf", "tile"}, ""},
      {"overview", {"on", "off"}, ""},
      {"on-error", {"skip", "fail"}, "skip"},
      {"fit", {"pad", "crop", "resize"}, "pad"},
      {"crop-mode", {"center", "squash", "border", "center_floor"}, ""},
      {"interpolation", {"bicubic", "bilinear", "nearest"}, ""},
      {"exif", {"auto", "apply", "ignore"}, "auto"},
      {"precision", {"auto", "float32", "tf32", "float16", "bfloat16", "int8"}, "auto"},
      {"kernels", {"auto", "fused", "reference"}, "auto"},
      {"format", {"text", "json", "jsonl", "csv", "md", "html"}, ""},
      {"label-type", {"name", "id", "index"}, "name"},
      {"color", {"auto", "always", "never"}, "auto"},
      {"device", {}, "auto"},
      {"seed", {}, "42"},
      {"max-pixels", {}, "536870912"},
      {"batch-size", {}, ""},
      {"workers", {}, ""},
      {"threads", {}, ""},
      {"model", {}, ""},
      {"img-size", {}, ""},
  };
  const CommandSpec command = everything();
  for (const Expected& expected : table) {
    const OptionMatch match = find_option(command, expected.name);
    ASSERT_TRUE(match) << expected.name;
    EXPECT_EQ(match.option->choices, expected.choices) << expected.name;
    EXPECT_EQ(match.option->default_value, expected.default_value) << expected.name;
  }
}

TEST(SharedOptions, HaveDefaultsThatTheyAcceptThemselves) {
  for (const Option& option : everything().options) {
    if (option.default_value.empty()) continue;
    EXPECT_NO_THROW(check_values(option, split_values(option, option.default_value), option.name))
        << option.name;
  }
}

}  // namespace shared_options_test
}  // namespace hydrascope::app
