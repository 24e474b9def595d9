#include "model/image/labels.h"

#include "kernels/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <unistd.h>

namespace hydrascope::image {
namespace labels_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kSynsets =
    "n01440764 tench, Tinca tinca\n"
    "n02012849 crane\n"
    "n02113186 Cardigan, Cardigan Welsh corgi\n"
    "n02963159 cardigan\n"
    "n03126707 crane\n"
    "n03710637 maillot\n"
    "n03710721 maillot, tank suit\n"
    "n04238763 slide rule, slipstick\n";

Labels parse(std::string_view text) { return Labels::parse(text, "labels.txt"); }

ErrorCode code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_NE(error.subject(), "");
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::internal;
}

TEST(Labels, SynsetsWithNames) {
  const Labels labels = parse(kSynsets);
  ASSERT_EQ(labels.size(), 8);
  EXPECT_TRUE(labels.has_ids());
  EXPECT_EQ(labels.at(0).id, "n01440764");
  EXPECT_EQ(labels.at(0).names, "tench, Tinca tinca");
  EXPECT_EQ(labels.at(0).short_name, "tench");
  EXPECT_EQ(labels.at(7).short_name, "slide rule");
}

TEST(Labels, NamesOnly) {
  const Labels labels = parse("cat\n golden retriever, dog \nn1234567 x\nnot12345678 y\n");
  ASSERT_EQ(labels.size(), 4);
  EXPECT_FALSE(labels.has_ids());
  EXPECT_EQ(labels.at(1).names, "golden retriever, dog");
  EXPECT_EQ(labels.at(1).short_name, "golden retriever");
  EXPECT_EQ(labels.at(2).names, "n1234567 x") << "seven digits make no synset";
  EXPECT_EQ(labels.at(3).names, "not12345678 y");
}

TEST(Labels, SynsetsAloneAndTabs) {
  const Labels labels = parse("n01440764\nn02012849\tcrane, bird\n");
  EXPECT_EQ(labels.at(0).id, "n01440764");
  EXPECT_EQ(labels.at(0).names, "n01440764");
  EXPECT_EQ(labels.at(1).id, "n02012849");
  EXPECT_EQ(labels.at(1).names, "crane, bird");
}

TEST(Labels, ByteOrderMarkCarriageReturnsAndTheEnd) {
  const Labels labels = parse(
      "\xEF\xBB\xBF"
      "cat\r\ndog\r\n\r\n \n");
  ASSERT_EQ(labels.size(), 2);
  EXPECT_EQ(labels.at(0).names, "cat");
  EXPECT_EQ(labels.at(1).names, "dog");
  EXPECT_EQ(parse("cat\ndog").size(), 2) << "no line feed at the end";
}

TEST(Labels, NamesThatAreOnlyCommas) {
  const Labels labels = parse(", x\n,\n");
  EXPECT_EQ(labels.at(0).short_name, ", x");
  EXPECT_EQ(labels.at(1).short_name, ",");
  EXPECT_THAT(labels.find_name("x"), ElementsAre(0));
  EXPECT_THAT(labels.find_name(""), IsEmpty());
}

TEST(Labels, FindsIds) {
  const Labels labels = parse(kSynsets);
  EXPECT_EQ(labels.find_id("n02012849"), 1);
  EXPECT_EQ(labels.find_id("N02012849"), 1);
  EXPECT_EQ(labels.find_id("n99999999"), std::nullopt);
  EXPECT_EQ(labels.find_id("crane"), std::nullopt);
}

TEST(Labels, FindsNamesInAnyCase) {
  const Labels labels = parse(kSynsets);
  EXPECT_THAT(labels.find_name("tench, Tinca tinca"), ElementsAre(0));
  EXPECT_THAT(labels.find_name("TINCA TINCA"), ElementsAre(0));
  EXPECT_THAT(labels.find_name(" tench "), ElementsAre(0));
  EXPECT_THAT(labels.find_name("Slide_Rule"), ElementsAre(7)) << "as folders are called";
  EXPECT_THAT(labels.find_name("maillot, tank suit"), ElementsAre(6));
  EXPECT_THAT(labels.find_name("tank suit"), ElementsAre(6));
  EXPECT_THAT(labels.find_name("Cardigan Welsh corgi"), ElementsAre(2));
  EXPECT_THAT(labels.find_name("ten"), IsEmpty());
  EXPECT_THAT(labels.find_name("n01440764"), IsEmpty());
}

TEST(Labels, AnAmbiguousNameGivesAllItCouldMean) {
  const Labels labels = parse(kSynsets);
  EXPECT_THAT(labels.find_name("crane"), ElementsAre(1, 4));
  EXPECT_THAT(labels.find_name("maillot"), ElementsAre(5, 6));
  EXPECT_THAT(labels.find_name("cardigan"), ElementsAre(2, 3));
}

TEST(Labels, ANameThatComesTwiceInOneClassIsOneClass) {
  EXPECT_THAT(parse("dog, Dog, DOG\n").find_name("dog"), ElementsAre(0));
}

TEST(Labels, Numbered) {
  const Labels labels = Labels::numbered(3);
  ASSERT_EQ(labels.size(), 3);
  EXPECT_EQ(labels.at(2).id, "");
  EXPECT_EQ(labels.at(2).short_name, "2");
  EXPECT_THAT(labels.find_name("1"), ElementsAre(1));
  EXPECT_EQ(Labels::numbered(0).size(), 0);
}

TEST(Labels, IndicesBeyondTheEnd) {
  const Labels labels = parse("cat\n");
  EXPECT_THROW(static_cast<void>(labels.at(1)), Error);
  EXPECT_THROW(static_cast<void>(labels.at(-1)), Error);
}

TEST(Labels, TextThatIsNoList) {
  EXPECT_EQ(code_of([] { parse(""); }), ErrorCode::empty);
  EXPECT_EQ(code_of([] { parse("\xEF\xBB\xBF\r\n \n"); }), ErrorCode::empty);
  EXPECT_EQ(code_of([] { parse(std::string_view("cat\0\n", 5)); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { parse("n01440764 a\nn01440764 b\n"); }), ErrorCode::invalid_argument);
  try {
    parse("cat\n\ndog\n");
    FAIL() << "line 2 is blank: is dog class 1 or 2?";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("line 2"));
  }
}

TEST(Labels, Files) {
  const fs::path folder =
      fs::path(::testing::TempDir()) / ("hydrascope_labels_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const fs::path file = folder / "labels.txt";
  std::ofstream(file, std::ios::binary) << kSynsets;
  EXPECT_EQ(Labels::load(file).size(), 8);
  EXPECT_EQ(code_of([&] { Labels::load(folder / "none.txt"); }), ErrorCode::not_found);
  EXPECT_EQ(code_of([&] { Labels::load(folder); }), ErrorCode::unreadable);
  std::ofstream(file, std::ios::binary | std::ios::trunc).close();
  EXPECT_EQ(code_of([&] { Labels::load(file); }), ErrorCode::empty);
  fs::resize_file(file, (16 << 20) + 1);
  EXPECT_EQ(code_of([&] { Labels::load(file); }), ErrorCode::too_large);
  fs::remove_all(folder);
}

TEST(LabelsTest, NamesWithCommasStayWholeWhereTheirBeginningsAreTheSame) {
  const Labels parsed = Labels::parse("Portland, OR\nPortland, ME\ncrane, bird\n", "text");
  EXPECT_EQ(parsed.at(0).short_name, "Portland, OR");
  EXPECT_EQ(parsed.at(1).short_name, "Portland, ME");
  EXPECT_EQ(parsed.at(2).short_name, "crane");
  const Labels made = Labels::of({{"", "a, b", "a, b"}, {"n1", "c", "c"}}, "classes");
  EXPECT_EQ(made.at(0).short_name, "a, b");
  EXPECT_EQ(made.at(1).id, "n1");
  for (const char* name : {"", " ", "a\nb", "a\rb"})
    EXPECT_EQ(code_of([&] {
                Labels::of({{"", name, name}}, "classes");
              }),
              ErrorCode::invalid_argument)
        << name;
}

}  // namespace labels_test
}  // namespace hydrascope::image
