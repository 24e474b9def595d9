#include "app/pictures/labelled_set.h"

#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace hydrascope::app {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

/// A folder for every class, with a picture in each.
class FolderClassesTest : public ::testing::Test {
 protected:
  void make(const std::vector<std::string>& names) {
    for (const std::string& name : names) folder_.write(name + "/a.jpg");
  }
  LabelledSet read(const image::Labels& labels) const {
    return read_folder_classes(folder_.path(), labels);
  }
  /// In the order of the folders.
  std::vector<std::int64_t> targets(const image::Labels& labels) const {
    std::vector<std::int64_t> targets;
    for (const LabelledPicture& picture : read(labels).pictures) targets.push_back(picture.target);
    return targets;
  }

  testing::TemporaryFolder folder_;
  image::Labels labels_ = image::Labels::parse(
      "n00000001 cat\nn00000002 dog\nn00000003 crane\nn00000004 crane\nn00000005 fox\nn00000006 "
      "owl\nn00000007 elk\nn00000008 bee\nn00000009 hen\nn00000010 cow\nn00000011 ant\n",
      "test");
};

TEST_F(FolderClassesTest, NumbersAreIndicesAlsoWhereSomeAreMissing) {
  make({"0", "1", "2", "10", "9"});
  EXPECT_THAT(targets(labels_), ElementsAre(0, 1, 2, 9, 10));
  EXPECT_TRUE(read(labels_).is_by_index);
  const image::Labels unnamed = image::Labels::numbered(11);
  EXPECT_THAT(targets(unnamed), ElementsAre(0, 1, 2, 9, 10));
}

TEST_F(FolderClassesTest, LeadingZerosAreNoOtherNumber) {
  make({"000", "001", "010"});
  EXPECT_THAT(targets(labels_), ElementsAre(0, 1, 10));
  make({"10"});
  for (const image::Labels& labels : {labels_, image::Labels::numbered(11)})
    EXPECT_ERROR(read(labels), invalid_argument, "two folders are class 10", "010", "10");
}

TEST_F(FolderClassesTest, LeadingZerosMixWithTheNamesOfUnnamedClasses) {
  make({"00", "10"});
  EXPECT_THAT(targets(image::Labels::numbered(11)), ElementsAre(0, 10));
}

TEST_F(FolderClassesTest, NumbersThatCountFromOneAreRefused) {
  for (int i = 1; i <= 11; ++i) make({std::to_string(i)});
  EXPECT_ERROR(read(labels_), invalid_argument, "0 to 10", "count from 1 to 11", "`class_map` FILE",
               "seq 11");
  std::string lines;
  for (int i = 1; i <= 11; ++i) lines += std::to_string(i) + "\n";
  EXPECT_THAT(targets(image::Labels::parse(lines, "map")),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
}

TEST_F(FolderClassesTest, NumbersBeyondTheClassesAreRefused) {
  make({"0", "5", "11", "12"});
  EXPECT_ERROR(read(labels_), invalid_argument, "0 to 10", "found 11, 12", "`class_map` FILE");
}

TEST_F(FolderClassesTest, NamesAndIdsMix) {
  make({"n00000011", "DOG", " fox "});
  EXPECT_THAT(targets(labels_), ElementsAre(4, 1, 10));
  EXPECT_FALSE(read(labels_).is_by_index);
}

TEST_F(FolderClassesTest, NamesAndNumbersDoNot) {
  make({"cat", "1", "9"});
  EXPECT_ERROR(read(labels_), invalid_argument, "others are numbers: 1, 9", "`class_map`");
}

TEST_F(FolderClassesTest, NoOrderIsTakenForLabels) {
  std::string lines;
  for (const char letter : std::string("abcdefghijk")) {
    make({std::string("kind ") + letter});
    lines += std::string("kind ") + letter + "\n";
  }
  EXPECT_ERROR(read(labels_), invalid_argument, "no folder is named after a class", "kind a",
               "`class_map` FILE");
  EXPECT_ERROR(read(image::Labels::numbered(11)), invalid_argument, "`class_map` FILE");
  EXPECT_EQ(targets(image::Labels::parse(lines, "map")).back(), 10);
}

TEST_F(FolderClassesTest, WhatIsNoClassAndWhatIsTwoAreListed) {
  make({"cat", "crane", "dgo"});
  EXPECT_ERROR(read(labels_), invalid_argument, "dgo", "crane",
               "2 (n00000003: crane), 3 (n00000004: crane)");
}

TEST_F(FolderClassesTest, ClassesCalledByNumbersAreFoundByName) {
  make({"3", "7"});
  EXPECT_THAT(targets(image::Labels::parse("3\n7\n", "trained")), ElementsAre(0, 1));
  EXPECT_ERROR(read(image::Labels::parse("03\n7\n", "trained")), invalid_argument,
               "name no class, or more than one: 3");
}

TEST_F(FolderClassesTest, FoldersHaveTheOrderOfTimm) {
  // sorted(sorted(names), key=timm.utils.misc.natural_key)
  const std::vector<std::string> sorted{"1",       "01a",      "1b",  "2",   "10",  "a",
                                        "a9",      "A9a",      "a9b", "a10", "B",   "C",
                                        "class_1", "class_02", "x",   "x1",  "x-2", "é"};
  std::vector<std::string> names = sorted;
  std::ranges::sort(names);
  make(names);
  std::vector<std::string> found;
  for (const auto& folder : class_folders(folder_.path())) found.push_back(folder.filename());
  EXPECT_THAT(found, ElementsAreArray(sorted));
}

/// A tree of pictures, and the labels that `embed --label-folders` gives them.
class FolderLabelsTest : public ::testing::Test {
 protected:
  FolderLabelsTest() {
    for (const char* name : {"n/otter/day1/a.jpg", "n/otter/b.jpg", "n/arch/day1/c.jpg", "n/d.jpg",
                             "set/train/fox/e.jpg", "set/train/owl/f.jpg", "set/val/fox/g.jpg"})
      folder_.write(name);
  }
  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }
  /// "c.jpg arch", in order.
  std::vector<std::string> labels(const std::vector<std::string>& names,
                                  const std::string& list = "") {
    std::vector<std::string> words;
    for (const std::string& name : names) words.push_back(name == "-" ? name : at(name));
    std::istringstream standard_input(list);
    std::vector<std::string> found;
    for (const auto& [input, label] : read_folder_labels(words, false, notes_, &standard_input))
      found.push_back(input.path.filename().string() + " " + label);
    return found;
  }

  testing::TemporaryFolder folder_;
  std::vector<std::string> notes_;
};

TEST_F(FolderLabelsTest, AreTheFoldersBelowTheSet) {
  for (const char* set : {"n", "n/", "n/.", "n/arch/.."})
    EXPECT_THAT(labels({set}), ElementsAre("c.jpg arch", "b.jpg otter", "a.jpg otter")) << set;
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("have no class and are left out: 1")));
  EXPECT_THAT(labels({"set/train", "set/val/"}),
              ElementsAre("e.jpg fox", "f.jpg owl", "g.jpg fox"));
}

TEST_F(FolderLabelsTest, AreTheNamesOfLinksToFolders) {
  std::filesystem::create_directories(at("links"));
  std::filesystem::create_directory_symlink(at("n/arch"), at("links/gate"));
  EXPECT_THAT(labels({"links"}), ElementsAre("c.jpg gate"));
  EXPECT_THAT(labels({"n/arch/day1"}), ElementsAre("c.jpg day1"));
}

TEST_F(FolderLabelsTest, AreTheFolderItselfWhereItHoldsNoOthers) {
  EXPECT_THAT(labels({"set/train/fox/", "set/train/owl"}), ElementsAre("e.jpg fox", "f.jpg owl"));
  EXPECT_THAT(notes_,
              ElementsAre("note: the label of a file is the folder that it lies in: fox, owl"));
  EXPECT_THAT(labels({"set/train/owl/f.jpg"}), ElementsAre("f.jpg owl"));
  EXPECT_THAT(labels({"-"}, at("set/val/fox/g.jpg") + "\n" + at("set/train/fox/e.jpg") + "\n"),
              ElementsAre("g.jpg fox", "e.jpg fox"));
  EXPECT_THAT(labels({"gone.jpg"}), ElementsAre("gone.jpg "));
  EXPECT_THAT(notes_, ElementsAre());
}

TEST_F(FolderLabelsTest, AreRefusedWhereTheyWouldJoinClasses) {
  EXPECT_ERROR(labels({"n/arch", "n/otter"}), invalid_argument, "a class, or a set", "n/arch");
  EXPECT_ERROR(labels({"n", "n/otter/day1"}), invalid_argument, "a class, or a set");
  EXPECT_ERROR(labels({"set"}), invalid_argument, "set/train holds folders", "`label_folders`");
  EXPECT_ERROR(labels({"n/arch/day1", "n/otter/day1"}), invalid_argument,
               "one label for two folders", "n/arch/day1", "n/otter/day1");
  EXPECT_ERROR(labels({"n/*/*/*.jpg"}), invalid_argument, "one label for two folders");
  EXPECT_ERROR(labels({"n/otter/**"}), invalid_argument, "a class in a class", "n/otter/day1");
}

}  // namespace
}  // namespace hydrascope::app
