#include "app/pictures/glob.h"

#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <sys/stat.h>
#include <vector>

namespace hydrascope::app {
namespace {

namespace fs = std::filesystem;
using hydrascope::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(HasWildcard, SeesStarsQuestionMarksAndClosedSets) {
  EXPECT_TRUE(has_wildcard("a*.jpg"));
  EXPECT_TRUE(has_wildcard("a?.jpg"));
  EXPECT_TRUE(has_wildcard("a[12].jpg"));
  EXPECT_FALSE(has_wildcard("a.jpg"));
  EXPECT_FALSE(has_wildcard("a[.jpg"));
  EXPECT_FALSE(has_wildcard("a[]"));
  EXPECT_FALSE(has_wildcard("a[b/c]"));
  EXPECT_FALSE(has_wildcard(""));
}

TEST(MatchesSegment, Star) {
  EXPECT_TRUE(matches_segment("*", "anything"));
  EXPECT_TRUE(matches_segment("a*", "a"));
  EXPECT_TRUE(matches_segment("*.jpg", "a.b.jpg"));
  EXPECT_TRUE(matches_segment("a*b*c", "aXbYbZc"));
  EXPECT_TRUE(matches_segment("a**c", "abc"));
  EXPECT_FALSE(matches_segment("*.jpg", "a.jpeg"));
  EXPECT_FALSE(matches_segment("a*b", "abc"));
  EXPECT_FALSE(matches_segment("*.jpg", "A.JPG"));
}

TEST(MatchesSegment, ManyStarsTakeNoExponentialTime) {
  std::string pattern;
  for (int count = 0; count < 60; ++count) pattern += "*a";
  EXPECT_FALSE(matches_segment(pattern + "b", std::string(2000, 'a')));
}

TEST(MatchesSegment, AnOpenSetStandsForItselfWhateverFollows) {
  for (const char* name : {"a[.b", "a[=b", "a[:b", "[[.", "a[!"})
    EXPECT_TRUE(matches_segment(name, name)) << name;
  EXPECT_TRUE(matches_segment("a[.*", "a[.jpg"));
}

TEST(MatchesSegment, NoNameHoldsAZeroByte) {
  EXPECT_FALSE(matches_segment(std::string("*\0b", 3), "a"));
  EXPECT_FALSE(find_entry(::testing::TempDir(), std::string("\0", 1)).has_value());
}

TEST(MatchesSegment, QuestionMarkIsOneCharacter) {
  EXPECT_TRUE(matches_segment("a?c", "abc"));
  EXPECT_FALSE(matches_segment("a?c", "ac"));
  EXPECT_FALSE(matches_segment("a?c", "abbc"));
  EXPECT_TRUE(matches_segment("?.jpg", "\xC3\xA9.jpg"));
  EXPECT_TRUE(matches_segment("?.jpg", "\xF0\x9F\x90\x9F.jpg"));
  EXPECT_TRUE(matches_segment("?.jpg", "\xFF.jpg"));
  EXPECT_TRUE(matches_segment("??.jpg", "\xC3\x28.jpg")) << "a broken sequence counts bytes";
}

TEST(MatchesSegment, Sets) {
  EXPECT_TRUE(matches_segment("[abc]", "b"));
  EXPECT_FALSE(matches_segment("[abc]", "d"));
  EXPECT_TRUE(matches_segment("[a-c]x", "bx"));
  EXPECT_TRUE(matches_segment("[!a-c]", "d"));
  EXPECT_FALSE(matches_segment("[!a-c]", "a"));
  EXPECT_TRUE(matches_segment("[^a]", "b"));
  EXPECT_TRUE(matches_segment("[]a]", "]"));
  EXPECT_TRUE(matches_segment("[!]]", "a"));
  EXPECT_FALSE(matches_segment("[!]]", "]"));
  EXPECT_TRUE(matches_segment("[a-]", "-"));
  EXPECT_TRUE(matches_segment("[*]", "*"));
  EXPECT_FALSE(matches_segment("[*]", "x"));
  EXPECT_TRUE(matches_segment("[\xC3\xA0-\xC3\xBF]", "\xC3\xA9"));
  EXPECT_TRUE(matches_segment("a[b", "a[b")) << "not closed: stands for itself";
}

TEST(MatchesSegment, HiddenNamesNeedADot) {
  EXPECT_FALSE(matches_segment("*", ".hidden"));
  EXPECT_FALSE(matches_segment("?hidden", ".hidden"));
  EXPECT_FALSE(matches_segment("[.]hidden", ".hidden"));
  EXPECT_TRUE(matches_segment(".*", ".hidden"));
}

class FindFilesTest : public ::testing::Test {
 protected:
  /// Paths of the matches below the folder; failures as "path !code".
  std::vector<std::string> glob(const std::string& pattern) {
    std::vector<std::string> found;
    for (const FoundFile& file : find_files(folder_.path().native() + '/' + pattern).files) {
      std::string path = file.path.substr(folder_.path().native().size() + 1);
      if (file.error) path += " !" + std::string(name(*file.error));
      found.push_back(path);
    }
    return found;
  }

  TemporaryFolder folder_;
};

TEST_F(FindFilesTest, OneFolderInByteOrder) {
  for (const char* name : {"b.jpg", "a.jpg", "B.jpg", "\xC3\xA9.jpg", "a.png", ".c.jpg"}) {
    folder_.write(name);
  }
  folder_.write("folder.jpg/inside.jpg");
  EXPECT_THAT(glob("*.jpg"), ElementsAre("B.jpg", "a.jpg", "b.jpg", "\xC3\xA9.jpg"));
  EXPECT_THAT(glob(".*.jpg"), ElementsAre(".c.jpg"));
  EXPECT_THAT(glob("*.tif"), IsEmpty());
  EXPECT_THAT(glob("no/such/*.jpg"), IsEmpty());
}

TEST_F(FindFilesTest, FoldersInTheMiddle) {
  for (const char* name : {"x/1/a.jpg", "x/2/a.jpg", "y/1/a.jpg", "x/a.jpg", "x/.3/a.jpg"}) {
    folder_.write(name);
  }
  EXPECT_THAT(glob("*/?/a.jpg"), ElementsAre("x/1/a.jpg", "x/2/a.jpg", "y/1/a.jpg"));
  EXPECT_THAT(glob("x/*/a.jpg"), ElementsAre("x/1/a.jpg", "x/2/a.jpg"));
  EXPECT_THAT(glob("x//[!1]/../*.jpg"), ElementsAre("x/2/../a.jpg"));
  EXPECT_THAT(glob("x/.*/a.jpg"), ElementsAre("x/.3/a.jpg"));
  EXPECT_THAT(glob("*/*"), ElementsAre("x/a.jpg")) << "folders are no files";
}

TEST_F(FindFilesTest, DoubleStarIsAnyNumberOfFolders) {
  for (const char* name :
       {"a.jpg", "b/a.jpg", "b/c/a.jpg", "b.d/a.jpg", "b/c/d.png", ".h/a.jpg", "b/.a.jpg"}) {
    folder_.write(name);
  }
  EXPECT_THAT(glob("**/*.jpg"), ElementsAre("a.jpg", "b.d/a.jpg", "b/a.jpg", "b/c/a.jpg"))
      << "each once, in the order of `find | LC_ALL=C sort`";
  EXPECT_THAT(glob("**/**/*.jpg"), ElementsAre("a.jpg", "b.d/a.jpg", "b/a.jpg", "b/c/a.jpg"));
  EXPECT_THAT(glob("b/**"), ElementsAre("b/a.jpg", "b/c/a.jpg", "b/c/d.png"));
  EXPECT_THAT(glob("**/c/*"), ElementsAre("b/c/a.jpg", "b/c/d.png"));
  EXPECT_THAT(glob("**/b/**/a.jpg"), ElementsAre("b/a.jpg", "b/c/a.jpg"));
  EXPECT_THAT(glob("**/.*.jpg"), ElementsAre("b/.a.jpg"));
}

TEST_F(FindFilesTest, LinksAreFollowedButNotRoundInACircle) {
  folder_.write("a/x.jpg");
  folder_.write("b/y.jpg");
  fs::create_directory_symlink("..", folder_.path() / "a/up");
  fs::create_directory_symlink("../a", folder_.path() / "b/to_a");
  fs::create_directory_symlink("../b", folder_.path() / "a/to_b");
  EXPECT_THAT(glob("**/*.jpg"), ElementsAre("a/x.jpg", "b/y.jpg")) << "which are walked anyway";
  EXPECT_THAT(glob("a/**"), ElementsAre("a/to_b/y.jpg", "a/x.jpg"));
  EXPECT_THAT(glob("a/up/b/*.jpg"), ElementsAre("a/up/b/y.jpg")) << "asked for by name";
  EXPECT_THAT(glob("*/*/*.jpg"), ElementsAre("a/to_b/y.jpg", "b/to_a/x.jpg"));
}

TEST_F(FindFilesTest, AFolderWhoseNameLooksLikeASetIsThatFolder) {
  folder_.write("trip [2020]/a.jpg");
  folder_.write("trip 2/a.jpg");
  EXPECT_THAT(glob("trip [2020]/*.jpg"), ElementsAre("trip [2020]/a.jpg"));
  EXPECT_THAT(glob("trip [2]/*.jpg"), ElementsAre("trip 2/a.jpg"));
}

TEST_F(FindFilesTest, DeadLinksAndPipesAreReported) {
  fs::create_symlink("nowhere", folder_.path() / "dead.jpg");
  ASSERT_EQ(::mkfifo((folder_.path() / "pipe.jpg").c_str(), 0600), 0);
  EXPECT_THAT(glob("*.jpg"), ElementsAre("dead.jpg !not_found", "pipe.jpg !unreadable"));
}

TEST(FindFiles, RelativeAndEmptyPatterns) {
  EXPECT_THAT(find_files("").files, IsEmpty());
  for (const FoundFile& file : find_files("/*").files)
    EXPECT_TRUE(file.path.starts_with('/')) << file.path;
}

}  // namespace
}  // namespace hydrascope::app
