#include "app/pictures/labelled_set.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrascope::app {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

LabelledSet set_of(std::initializer_list<const char*> files) {
  LabelledSet set;
  for (const char* file : files) set.pictures.push_back({file, 0});
  return set;
}

TEST(RealLabelsTest, InTheOrderOfThePictures) {
  const TemporaryFolder folder;
  LabelledSet set = set_of({"b.jpg", "a.jpg"});
  read_real_labels(folder.write("real.json", "[[3, 1], []]"), 4, set);
  EXPECT_TRUE(set.has_real_labels);
  EXPECT_THAT(set.pictures[0].valid, ElementsAre(3, 1));
  EXPECT_THAT(set.pictures[1].valid, IsEmpty());
}

TEST(RealLabelsTest, ValidationPicturesByNumber) {
  const TemporaryFolder folder;
  LabelledSet set =
      set_of({"n02/ILSVRC2012_val_00000003.JPEG", "n01/ILSVRC2012_val_00000001.JPEG"});
  const auto file = folder.write("real.json", "[[1], [2], [3]]");
  read_real_labels(file, 4, set);
  EXPECT_THAT(set.pictures[0].valid, ElementsAre(3));
  EXPECT_THAT(set.pictures[1].valid, ElementsAre(1));
  LabelledSet beyond = set_of({"ILSVRC2012_val_00000004.JPEG"});
  EXPECT_ERROR(read_real_labels(file, 4, beyond), invalid_argument, "00000004");
}

TEST(RealLabelsTest, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const auto refuse = [&](const std::string& text, const char* message) {
    LabelledSet set = set_of({"a.jpg", "b.jpg"});
    EXPECT_ERROR(read_real_labels(folder.write("real.json", text), 4, set), invalid_argument,
                 message);
    EXPECT_FALSE(set.has_real_labels);
  };
  refuse("[[1]]", "1 lists for 2 pictures");
  refuse("[[1], [4]]", "list 2");
  refuse("[[1], [-1]]", "0 to 3");
  refuse("[[1], 2]", "list 2");
  refuse("[[1], [0.5]]", "list 2");
  refuse("{}", "list of lists");
  refuse("[[1], [2]", "list of lists");
  LabelledSet set = set_of({"a.jpg"});
  EXPECT_ERROR(read_real_labels(folder.path() / "none.json", 4, set), invalid_argument,
               "none.json");
}

}  // namespace
}  // namespace hydrascope::app
