#include "app/pictures/resumed_records.h"

#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

namespace hydrascope::app {
namespace {

using hydrascope::testing::TemporaryFolder;

Input named(const std::string& name) { return file_input(name, name); }

TEST(ResumedRecords, AnswersEachInputOnce) {
  const TemporaryFolder folder;
  const std::string text =
      "{\"schema\":1,\"input\":\"a.jpg\",\"top\":[]}\n{\"input\":\"a.jpg\",\"error\":\"empty\"}\n";
  ResumedRecords records(folder.write("r.jsonl", text));
  EXPECT_EQ(records.num_inputs(), 2);
  EXPECT_EQ(records.bytes(), text.size());
  EXPECT_EQ(records.num_failed(), 1);
  EXPECT_TRUE(records.answers(named("a.jpg")));
  EXPECT_TRUE(records.answers(named("a.jpg"))) << "named twice";
  EXPECT_FALSE(records.answers(named("a.jpg")));
  EXPECT_FALSE(records.answers(named("b.jpg")));
}

TEST(ResumedRecords, BeginsALastVideoAnew) {
  const TemporaryFolder folder;
  const std::string first =
      "{\"input\":\"a.mp4\",\"frame\":0}\n{\"input\":\"a.mp4\",\"frame\":1}\n";
  const std::string second = "{\"input\":\"b.mp4\",\"frame\":0}\n";
  ResumedRecords records(folder.write("r.jsonl", first + second));
  EXPECT_EQ(records.num_inputs(), 1);
  EXPECT_EQ(records.bytes(), first.size());
  EXPECT_TRUE(records.answers(named("a.mp4")));
  EXPECT_FALSE(records.answers(named("b.mp4")));
}

TEST(ResumedRecords, KeepsNamesApartThatAreNotUtf8) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("r.jsonl", "{\"input\":\"\xEF\xBF\xBD.ppm\",\"input_bytes\":\"%FF.ppm\"}\n");
  EXPECT_TRUE(ResumedRecords(file).answers(named("\xFF.ppm")));
  EXPECT_ERROR(ResumedRecords(file).answers(named("\xFE.ppm")), invalid_argument, "other inputs");
}

TEST(ResumedRecords, RefusesWhatIsNoRecord) {
  const TemporaryFolder folder;
  EXPECT_ERROR(ResumedRecords(folder.write("r", "{\"input\":\"a\"}\nb\n")), invalid_argument,
               "line 2 is no record");
  EXPECT_ERROR(ResumedRecords(folder.path() / "none"), unreadable, "cannot be read");
  EXPECT_EQ(ResumedRecords(folder.write("empty", "")).num_inputs(), 0);
}

}  // namespace
}  // namespace hydrascope::app
