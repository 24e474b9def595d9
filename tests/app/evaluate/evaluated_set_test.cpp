#include "app/evaluate/evaluated_set.h"

#include "app/evaluate/evaluate_options.h"
#include "app/options/written_files.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrascope::app {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const SetJobs kScores{.command = "evaluate", .scores = true};
const SetJobs kCompares{.command = "compare", .compares = true};
const SetJobs kMeasures{.command = "faithfulness", .measures_maps = true};

class EvaluatedSetTest : public ::testing::Test {
 protected:
  ParsedOptions options(std::vector<std::string> words) const {
    CommandSpec spec;
    spec.name = "evaluate";
    spec.positionals = "FOLDER";
    spec.options = join({input_options(), runtime_options(), output_options(), views_options(),
                         labelled_set_options(), score_options(), agreement_options(),
                         faithfulness_options()});
    return parse(spec, words);
  }
  LabelledSet read_of(const ParsedOptions& options, const SetJobs& jobs) const {
    return read_evaluated_set(
        set_request(options, jobs),
        image::Labels::parse("n00000001 a\nn00000002 b\nn00000003 c\n", "three"), 3);
  }
  /// As `evaluate FOLDER words...`.
  LabelledSet read(std::vector<std::string> words, const SetJobs& jobs = kScores) const {
    words.push_back(folder_.path().string());
    return read_of(options(words), jobs);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(EvaluatedSetTest, AColumnOfValidLabels) {
  const std::string both = folder_.write(
      "a.csv", "file,label,real_labels\n1.jpg,0,0 2\n2.jpg,1,\n3.jpg,2,n00000002  1\n");
  const LabelledSet set = read({"--labels-csv", both});
  EXPECT_TRUE(set.has_labels);
  EXPECT_TRUE(set.has_real_labels);
  ASSERT_EQ(set.pictures.size(), 3U);
  EXPECT_EQ(set.pictures[2].target, 2);
  EXPECT_THAT(set.pictures[0].valid, ElementsAre(0, 2));
  EXPECT_THAT(set.pictures[1].valid, IsEmpty());
  EXPECT_THAT(set.pictures[2].valid, ElementsAre(1, 1));
  const LabelledSet alone =
      read({"--labels-csv", folder_.write("b.csv", "file,real_labels\n1.jpg,1\n")});
  EXPECT_FALSE(alone.has_labels);
  EXPECT_TRUE(alone.has_real_labels);
  EXPECT_EQ(alone.pictures[0].target, kNoClass);
  EXPECT_ERROR(read({"--labels-csv", folder_.write("c.csv", "file,real_labels\n1.jpg,1 3\n")}),
               invalid_argument, "'3'", "row 2");
}

TEST_F(EvaluatedSetTest, AFlatFolderHasNoLabels) {
  folder_.write("b.jpg");
  folder_.write("a.jpg");
  folder_.write("notes.txt");
  for (const SetJobs& jobs : {kScores, kCompares, kMeasures}) {
    const LabelledSet set =
        jobs.scores ? read({"--set", "no-labels=on"}) : read(std::vector<std::string>(), jobs);
    EXPECT_FALSE(set.has_labels);
    ASSERT_EQ(set.pictures.size(), 2U);
    EXPECT_EQ(set.pictures[0].file.filename(), "a.jpg");
    EXPECT_EQ(set.pictures[0].target, kNoClass);
  }
  EXPECT_ERROR(read({}), invalid_argument, "`labels_csv`");
  EXPECT_ERROR(read({"--set", "no-labels=on", "--per-class", "-"}), invalid_argument, "no labels",
               "`per_class`");
}

TEST_F(EvaluatedSetTest, WhatNeedsNoLabelsTakesAnyPictures) {
  const std::string a = folder_.write("one/a.jpg").string();
  const std::string b = folder_.write("b.jpg").string();
  folder_.write("two/film.mp4");
  const LabelledSet set = read_of(options({a, b, a}), kCompares);
  EXPECT_FALSE(set.has_labels);
  ASSERT_EQ(set.pictures.size(), 3U);
  EXPECT_EQ(set.pictures[1].file.filename(), "b.jpg");
  EXPECT_EQ(read_of(options({(folder_.path() / "*.jpg").string()}), kCompares).pictures.size(), 1U);
  EXPECT_ERROR(read_of(options({"/nonexistent"}), kCompares), not_found, "no such file",
               "/nonexistent");
  EXPECT_ERROR(read_of(options({}), kCompares), invalid_argument, "name pictures", "compare");
  const std::string film = (folder_.path() / "two/film.mp4").string();
  EXPECT_ERROR(read_of(options({film}), kCompares), unsupported_format, "is a video", film.c_str());
  const std::string gone = (folder_.path() / "gone.jpg").string();
  const LabelledSet mixed = read_of(options({film, a, gone}), kCompares);
  ASSERT_EQ(mixed.pictures.size(), 3U);
  EXPECT_EQ(mixed.pictures[0].error, ErrorCode::unsupported_format);
  EXPECT_FALSE(mixed.pictures[1].error.has_value());
  EXPECT_EQ(mixed.pictures[2].error, ErrorCode::not_found);
  EXPECT_EQ(mixed.readable(), 1U);
  EXPECT_ERROR(read_of(options({a, b}), kScores), invalid_argument, "expected one folder",
               "evaluate");
}

TEST_F(EvaluatedSetTest, WhatClassFoldersHoldAddsUp) {
  namespace fs = std::filesystem;
  folder_.write("a/1.jpg");
  folder_.write("a/deep/2.jpg");
  folder_.write("b/3.jpg");
  folder_.write("b/clip.mp4");
  folder_.write("c/notes.txt");
  folder_.write("stray.jpg");
  fs::create_symlink("/nonexistent.jpg", folder_.path() / "b/dead.jpg");
  fs::create_symlink("/nonexistent", folder_.path() / "gone");
  fs::create_directory_symlink("..", folder_.path() / "b/loop");
  fs::create_directory_symlink("../..", folder_.path() / "b/above");
  fs::create_directory_symlink("../a", folder_.path() / "b/other");
  folder_.write(".pool/4.jpg");
  fs::create_directory_symlink("../.pool", folder_.path() / "b/pool");
  const LabelledSet set = read({});
  std::vector<std::string> found;
  for (const LabelledPicture& picture : set.pictures) {
    found.push_back(std::to_string(picture.target) + " " +
                    picture.file.lexically_relative(folder_.path()).string() +
                    (picture.error ? " !" + std::string(name(*picture.error)) : ""));
  }
  EXPECT_THAT(found,
              ElementsAre("0 a/1.jpg", "0 a/deep/2.jpg", "1 b/3.jpg", "1 b/dead.jpg !not_found",
                          "1 b/pool/4.jpg", "-1 gone !not_found"));
  EXPECT_EQ(set.passed.links.count, 3);
  EXPECT_EQ(set.passed.videos.count, 1);
  EXPECT_EQ(set.beside_classes.count, 1);
  EXPECT_THAT(set.empty_folders, ElementsAre("c"));
  EXPECT_EQ(set.notes().size(), 4U);
}

TEST_F(EvaluatedSetTest, AFolderOfAClassThatIsTheSetItself) {
  folder_.write("a/1.jpg");
  folder_.write("b/2.jpg");
  std::filesystem::create_directory_symlink(".", folder_.path() / "c");
  const LabelledSet set = read({});
  EXPECT_EQ(set.pictures.size(), 2U);
  EXPECT_EQ(set.passed.links.count, 1);
}

TEST_F(EvaluatedSetTest, FoldersOfUnlabelledPictures) {
  folder_.write("one/a.jpg");
  folder_.write("two/b.jpg");
  EXPECT_EQ(read({"--set", "no-labels=on", "--recursive"}).pictures.size(), 2U);
  EXPECT_ERROR(read({"--set", "no-labels=on", "--labels-csv", "x.csv"}), invalid_argument,
               "`no_labels`");
  EXPECT_ERROR(read({"--set", "no-labels=on", "--require-top1", "50"}), invalid_argument,
               "no labels");
}

TEST_F(EvaluatedSetTest, OptionsThatDoNotGoTogether) {
  EXPECT_ERROR(check_evaluate_options(options({"--per-class", "/nonexistent/x.csv"})), not_found,
               "no such folder", "`per_class` /nonexistent/x.csv");
  EXPECT_ERROR(check_evaluate_options(options({"--per-class", "/tmp"})), invalid_argument,
               "found a folder");
  EXPECT_ERROR(check_written_files(options({"--per-class", "a.csv", "-o", "./a.csv"})),
               invalid_argument, "same file as");
}

}  // namespace
}  // namespace hydrascope::app
