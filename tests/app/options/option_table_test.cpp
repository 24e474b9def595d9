#include "app/options/option_table.h"

#include "app/options/options.h"
#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace {

const std::vector<std::string> kWords = {"img-size", "imgsz", "fit", "crop-pct", "interpolation"};

TEST(Nearest, FindsWhatIsOneSlipAway) {
  EXPECT_EQ(nearest("img-siz", kWords), "img-size");
  EXPECT_EQ(nearest("img-sizee", kWords), "img-size");
  EXPECT_EQ(nearest("img-sise", kWords), "img-size");
  EXPECT_EQ(nearest("Crop-Pct", kWords), "crop-pct");
}

TEST(Nearest, CountsSwappedLettersOnce) {
  const std::vector<std::string> words = {"abxy", "abcd"};
  EXPECT_EQ(nearest("abdc", words), "abcd");
  EXPECT_EQ(nearest("ift", kWords), "fit");
}

TEST(Nearest, CompletesAUniqueBeginning) {
  EXPECT_EQ(nearest("inter", kWords), "interpolation");
  EXPECT_EQ(nearest("img", kWords), "");  // img-size or imgsz
}

TEST(Nearest, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest("temperature", kWords), "");
  EXPECT_EQ(nearest("", kWords), "");
  EXPECT_EQ(nearest("xyz", kWords), "");
  EXPECT_EQ(nearest("x", std::vector<std::string>{"y"}), "");
  EXPECT_EQ(nearest(std::string(1 << 20, 'a'), kWords), "");
  EXPECT_EQ(nearest("fit", {}), "");
}

TEST(ToInteger, ConsumesTheWholeWord) {
  EXPECT_EQ(to_integer("8", "--n"), 8);
  EXPECT_EQ(to_integer("-8", "--n"), -8);
  EXPECT_EQ(to_integer("+8", "--n"), 8);
  EXPECT_EQ(to_integer("9223372036854775807", "--n"), std::numeric_limits<std::int64_t>::max());
  for (const char* word :
       {"", "8x", "8.0", " 8", "8 ", "0x8", "1e3", "+-8", "++8", "+", "-", "1,5"}) {
    EXPECT_ERROR(to_integer(word, "--n"), invalid_argument, "expected an integer", word, "--n");
  }
  EXPECT_ERROR(to_integer("9223372036854775808", "--n"), invalid_argument, "64 bits", "--n");
}

TEST(ToNumber, ConsumesTheWholeWord) {
  EXPECT_EQ(to_number(".485", "--x"), 0.485);
  EXPECT_EQ(to_number("-1e-3", "--x"), -1e-3);
  EXPECT_EQ(to_number("+5.", "--x"), 5.0);
  for (const char* word : {"", "0.5abc", "1,5", "0x1p3", "nan", "inf", "-inf", ".", "1 2"}) {
    EXPECT_ERROR(to_number(word, "--x"), invalid_argument, "expected a number", word, "--x");
  }
  EXPECT_ERROR(to_number("1e999", "--x"), invalid_argument, "64 bits");
}

TEST(SplitValues, OnlySplitsWhereAListIsDeclared) {
  const Option text = {.name = "labels"};
  EXPECT_EQ(split_values(text, "a,b c"), std::vector<std::string>{"a,b c"});
  const Option three = {.name = "mean", .kind = ValueKind::number, .values = 3};
  EXPECT_EQ(split_values(three, "1, 2 ,3"), (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(split_values(three, "1,,"), (std::vector<std::string>{"1", "", ""}));
  const Option list = {.name = "batch-size", .comma_list = true};
  EXPECT_EQ(split_values(list, "1,8"), (std::vector<std::string>{"1", "8"}));
}

TEST(CheckValues, EnforcesRangeAndChoicesOfEveryKind) {
  const Option size = {.name = "b", .kind = ValueKind::integer, .minimum = 1, .maximum = 64};
  EXPECT_NO_THROW(check_values(size, {"64"}, "--b"));
  EXPECT_ERROR(check_values(size, {"0"}, "--b"), invalid_argument, "at least 1, found 0", "--b");
  EXPECT_ERROR(check_values(size, {"65"}, "--b"), invalid_argument, "at most 64, found 65", "--b");
  const Option share = {.name = "p", .kind = ValueKind::number, .minimum = 0.01};
  EXPECT_ERROR(check_values(share, {"0"}, "--p"), invalid_argument, "at least 0.01, found 0");
  const Option patch = {.name = "patch", .kind = ValueKind::integer, .choices = {"14", "16"}};
  EXPECT_ERROR(check_values(patch, {"15"}, "--patch"), invalid_argument,
               "expected 14 or 16, found '15'");
}

TEST(CheckValues, RefusesNulCharacters) {
  EXPECT_ERROR(check_values({.name = "o"}, {std::string("a\0b", 3)}, "--o"), invalid_argument,
               "NUL");
}

TEST(Join, RefusesWhatIsDeclaredTwice) {
  const Option model = {.name = "model", .short_name = 'm', .aliases = {{"arch"}}};
  EXPECT_EQ(join({{model}, {{.name = "mean"}}}).size(), 2U);
  EXPECT_ERROR(join({{model}, {{.name = "model"}}}), internal, "twice", "--model");
  EXPECT_ERROR(join({{model}, {{.name = "arch"}}}), internal, "twice", "--arch");
  EXPECT_ERROR(join({{model}, {{.name = "x", .aliases = {{"model"}}}}}), internal, "twice",
               "--model");
  EXPECT_ERROR(join({{model}, {{.name = "mean", .short_name = 'm'}}}), internal, "twice", "-m");
}

}  // namespace
}  // namespace hydrascope::app
