#include "app/pictures/resumed_records.h"

#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace hydrascope::app {
namespace resumed_records_test {

using hydrascope::testing::read_bytes;
using hydrascope::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class EarlierAnswersTest : public ::testing::Test {
 protected:
  /// A picture that is there, with its stamp.
  Input input(const std::string& name, const std::string& bytes = "") {
    Input one = file_input(name_of(name), folder_.write(name, bytes));
    one.stamp = stamp_of(one);
    return one;
  }
  [[nodiscard]] std::string name_of(const std::string& name) const { return folder_.path() / name; }
  [[nodiscard]] std::vector<std::string> notes(const std::vector<std::string>& words = {}) const {
    return notes_on(answers_, words, "s", "hint");
  }

  TemporaryFolder folder_;
  EarlierAnswers answers_;
};

TEST_F(EarlierAnswersTest, StayWhileTheirFilesAreAsTheyWere) {
  const Input same = input("same.jpg", "1");
  const Input longer = input("longer.jpg", "1");
  const Input newer = input("newer.jpg", "1");
  const Input of_old_version = input("old.jpg", "1");
  for (const Input& one : {same, longer, newer}) answers_[one.given] = {one.stamp, 7};
  answers_[of_old_version.given] = {kNoStamp, 8};
  answers_[name_of("gone.jpg")] = {same.stamp, 9};
  EXPECT_EQ(same.stamp[0], 1);
  EXPECT_EQ(find_answer(answers_, same), 7U);
  EXPECT_EQ(find_answer(answers_, same), 7U) << "named twice";
  EXPECT_FALSE(find_answer(answers_, input("longer.jpg", "12")));
  std::filesystem::last_write_time(
      newer.path, std::filesystem::last_write_time(newer.path) + std::chrono::nanoseconds(1000));
  Input touched = newer;
  touched.stamp = stamp_of(newer);
  EXPECT_EQ(touched.stamp[1], newer.stamp[1] + 1000);
  EXPECT_FALSE(find_answer(answers_, touched));
  EXPECT_EQ(find_answer(answers_, of_old_version), 8U);
  EXPECT_FALSE(find_answer(answers_, input("new.jpg")));
  EXPECT_THAT(notes(),
              ElementsAre("2 inputs are answered already", "1 are dropped, their files are gone"));
}

TEST_F(EarlierAnswersTest, OfAFolderWhosePicturesHaveNewNamesAreDropped) {
  EXPECT_FALSE(find_answer(answers_, input("new.jpg")));
  answers_[name_of("old.jpg")] = {kNoStamp, 0};
  answers_[name_of("older.jpg")] = {kNoStamp, 1};
  EXPECT_ERROR(notes(), invalid_argument, "is of other inputs");
  EXPECT_ERROR(notes({name_of("new.jpg")}), invalid_argument, "is of other inputs");
  EXPECT_THAT(notes({folder_.path().string() + "/"}),
              ElementsAre("2 are dropped, their files are gone"));
  answers_.clear();
  answers_[name_of("elsewhere/old.jpg")] = {kNoStamp, 0};
  EXPECT_ERROR(notes({folder_.path()}), invalid_argument, "is of other inputs");
}

TEST_F(EarlierAnswersTest, OfOtherInputsAreRefused) {
  EXPECT_THAT(notes(), IsEmpty());
  const Input wanted = input("a.jpg");
  answers_[wanted.given] = {wanted.stamp, 0};
  answers_[name_of("gone.jpg")] = {wanted.stamp, 1};
  // Nothing is of these inputs: they are named from another folder, perhaps.
  EXPECT_FALSE(find_answer(answers_, input("b.jpg")));
  EXPECT_ERROR(notes(), invalid_argument, "is of other inputs", "a.jpg is none of these", "hint");
  EXPECT_TRUE(find_answer(answers_, wanted));
  EXPECT_THAT(notes(),
              ElementsAre("1 inputs are answered already", "1 are dropped, their files are gone"));
  answers_[input("c.jpg").given] = {wanted.stamp, 2};
  EXPECT_ERROR(notes(), invalid_argument, "c.jpg is none of these");
}

TEST_F(EarlierAnswersTest, WhatIsInNoFileHasNoStamp) {
  Input typed = file_input("-", "stdin");
  typed.memory = std::make_shared<PictureInMemory>();
  EXPECT_EQ(stamp_of(typed), kNoStamp);
  EXPECT_EQ(stamp_of(file_input("none", folder_.path() / "none")), kNoStamp);
  EXPECT_EQ(stamp_of(file_input("folder", folder_.path())), kNoStamp);
  answers_["-"] = {kNoStamp, 0};
  EXPECT_FALSE(find_answer(answers_, typed)) << "it may be another one";
}

TEST(ReadRecords, AreOfAnInputEach) {
  const TemporaryFolder folder;
  const std::string text =
      "{\"schema\":1,\"input\":\"a.jpg\",\"top\":[],\"file\":[12,34]}\n"
      "{\"input\":\"a.mp4\",\"frame\":0}\n{\"input\":\"a.mp4\",\"frame\":1}\n"
      "{\"input\":\"b.jpg\",\"error\":\"empty\"}\n";
  const auto records = read_records(folder.write("r.jsonl", text));
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].input, "a.jpg");
  EXPECT_EQ(records[0].stamp, (FileStamp{12, 34}));
  EXPECT_EQ(records[1].input, "a.mp4");
  EXPECT_EQ(records[1].stamp, kNoStamp);
  EXPECT_TRUE(records[1].are_of_video);
  EXPECT_EQ(records[1].begin, records[0].end);
  EXPECT_FALSE(records[1].have_failed);
  EXPECT_TRUE(records[2].have_failed);
  EXPECT_EQ(records[2].end, text.size());
}

TEST(ReadRecords, KeepsNamesApartThatAreNotUtf8) {
  for (const std::string name : {"\xFF.ppm", "a/\xFE %.ppm", "/a/\xFF.ppm", "a.ppm"}) {
    OrderedJson record = OrderedJson::object();
    add_path(record, "input", name);
    EXPECT_EQ(recorded_name(OrderedJson::parse(json_text(record))), name);
  }
}

TEST(ReadRecords, RefusesWhatIsNoRecord) {
  const TemporaryFolder folder;
  for (const char* line : {"b", "[]", "{}", "{\"input\":1}", "{\"input\":\"a\",\"file\":[1]}"})
    EXPECT_ERROR(read_records(folder.write("r", "{\"input\":\"a\"}\n" + std::string(line) + "\n")),
                 invalid_argument, "line 2 is no record");
  EXPECT_ERROR(read_records(folder.path() / "none"), unreadable, "cannot be read");
  EXPECT_THAT(read_records(folder.write("empty", "")), IsEmpty());
}

TEST(SortRecords, LeavesTheLastOfEachInputInOrder) {
  const TemporaryFolder folder;
  const std::string old_b = "{\"input\":\"b\",\"error\":1}\n";
  const std::string video = "{\"input\":\"v\",\"frame\":0}\n{\"input\":\"v\",\"frame\":1}\n";
  const std::string gone = "{\"input\":\"gone\"}\n";
  const std::string a = "{\"input\":\"a\"}\n";
  const std::string b = "{\"input\":\"b\"}\n";
  const auto file = folder.write("r.jsonl", old_b + video + gone + b + a);
  sort_records(file, {"a", "b", "v"});
  EXPECT_EQ(read_bytes(file), a + b + video);
}

}  // namespace resumed_records_test
}  // namespace hydrascope::app
