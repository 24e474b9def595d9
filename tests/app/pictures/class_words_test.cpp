#include "app/pictures/class_words.h"

#include "tests/error_matchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrascope::app {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

image::Labels parse(const std::string& lines) { return image::Labels::parse(lines, "test"); }

const image::Labels kLabels = parse(
    "n01440764 tench, Tinca tinca\nn02012849 crane\nn02444819 otter\nn03126707 crane\n"
    "n03710637 maillot\nn03710721 maillot, tank suit\n");

std::int64_t find(std::string_view word, const image::Labels& labels = kLabels) {
  return ClassWords(labels).find(word, "the word");
}

TEST(ClassWordsTest, IdsNamesAndIndices) {
  EXPECT_EQ(find("n02444819"), 2);
  EXPECT_EQ(find("N02444819"), 2);
  EXPECT_EQ(find("OTTER"), 2);
  EXPECT_EQ(find("Tinca_tinca"), 0);
  EXPECT_EQ(find("tench, Tinca tinca"), 0);
  EXPECT_EQ(find("0"), 0);
  EXPECT_EQ(find("005"), 5);
  EXPECT_EQ(find("index:5"), 5);
  EXPECT_EQ(find(" \totter\r"), 2);
  EXPECT_EQ(find(" 4 "), 4);
}

TEST(ClassWordsTest, AWholeNameGoesBeforeOneOfSeveral) {
  EXPECT_EQ(find("maillot"), 4);
  EXPECT_EQ(find("Maillot"), 4);
  EXPECT_EQ(find("tank suit"), 5);
  const image::Labels cases = parse("dark\nDark\n");
  EXPECT_EQ(find("Dark", cases), 1);
  EXPECT_ERROR(find("DARK", cases), invalid_argument, "2 classes have this name");
}

TEST(ClassWordsTest, WhatIsNoClass) {
  EXPECT_ERROR(find("oter"), invalid_argument, "the word", "did you mean otter");
  EXPECT_ERROR(find("zeppelin"), invalid_argument, "no class of that name");
  EXPECT_ERROR(find(""), invalid_argument, "no class of that name");
  EXPECT_ERROR(find("6"), invalid_argument, "0 to 5", "count from 0");
  EXPECT_ERROR(find("7"), invalid_argument, "0 to 5");
  EXPECT_ERROR(find("-1"), invalid_argument, "0 to 5");
  EXPECT_ERROR(find("index:6"), invalid_argument, "0 to 5");
  EXPECT_ERROR(find("99999999999999999999"), invalid_argument, "0 to 5");
  EXPECT_ERROR(find("crane"), invalid_argument, "2 classes have this name",
               "1 (n02012849: crane), 3 (n03126707: crane)");
}

TEST(ClassWordsTest, ANumberIsANameWhereClassesAreCalledByNumbers) {
  const image::Labels from_one = parse("1\n2\n3\n");
  EXPECT_EQ(find("1", from_one), 0);
  EXPECT_EQ(find("3", from_one), 2);
  EXPECT_EQ(find("index:1", from_one), 1);
  EXPECT_ERROR(find("0", from_one), invalid_argument, "called by numbers", "index:N");
  EXPECT_EQ(find("7", parse("cat\nseven, 7\n")), 1);
  const image::Labels digits = parse("0\n1\n2\n");
  EXPECT_EQ(find("2", digits), 2);
  EXPECT_EQ(find("002", digits), 2) << "names that are their indices";
}

TEST(ClassWordsTest, SaysWhetherANameOrAnIndexIsMeant) {
  const ClassWords words(kLabels);
  EXPECT_TRUE(words.meaning_of("otter").is_name);
  EXPECT_FALSE(words.meaning_of("otter").is_index);
  EXPECT_FALSE(words.meaning_of("2").is_name);
  EXPECT_TRUE(words.meaning_of("2").is_index);
  const image::Labels numbered = image::Labels::numbered(12);
  EXPECT_TRUE(ClassWords(numbered).meaning_of("11").is_name);
  EXPECT_TRUE(ClassWords(numbered).meaning_of("11").is_index);
  EXPECT_THAT(words.meaning_of("crane").classes, ElementsAre(1, 3));
  EXPECT_THAT(words.meaning_of("6").classes, IsEmpty());
}

}  // namespace
}  // namespace hydrascope::app
