#include "kernels/new_file.h"

#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace hydrascope {
namespace new_file_test {

namespace fs = std::filesystem;
using hydrascope::testing::read_bytes;
using hydrascope::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class NewFileTest : public ::testing::Test {
 protected:
  [[nodiscard]] fs::path target() const { return folder_.path() / "a.png"; }
  [[nodiscard]] std::vector<std::string> listing() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename().native());
    return names;
  }
  static void write(NewFile& file, std::string_view text) {
    file.write(std::as_bytes(std::span(text)));
  }
  /// A process that ends without a chance to clean up while it writes `target()`.
  void kill_a_writer() const {
    const pid_t child = ::fork();
    if (child == 0) {
      NewFile file(target());
      write(file, "half of a long file");
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }

  TemporaryFolder folder_;
};

TEST_F(NewFileTest, HasItsNameOnceItIsWhole) {
  folder_.write("a.png", "old");
  {
    NewFile file(target());
    write(file, "new and long");
    file.overwrite(0, std::as_bytes(std::span(std::string_view("NEW"))));
    write(file, "er");
    EXPECT_EQ(read_bytes(target()), "old");
    file.commit();
  }
  EXPECT_EQ(read_bytes(target()), "NEW and longer");
  {
    NewFile given_up(target());
    write(given_up, "x");
  }
  EXPECT_EQ(read_bytes(target()), "NEW and longer");
  EXPECT_THAT(listing(), ElementsAre("a.png"));
}

TEST_F(NewFileTest, ALinkStaysOne) {
  fs::create_directory(folder_.path() / "big");
  const fs::path link = folder_.path() / "link.png";
  fs::create_symlink("big/a.png", link);
  for (const char* text : {"first", "second"}) {
    NewFile file(link);
    write(file, text);
    file.commit();
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_EQ(read_bytes(folder_.path() / "big/a.png"), text);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path() / "big"), {}), 1);
}

TEST_F(NewFileTest, WhatAKilledProgramLeftIsUsedByTheNext) {
  kill_a_writer();
  kill_a_writer();
  ASSERT_EQ(listing().size(), 1U) << "the second has used what the first left";
  EXPECT_TRUE(listing()[0].starts_with(".hydrascope-")) << listing()[0];
  EXPECT_TRUE(listing()[0].ends_with(".tmp.png")) << listing()[0];
  {
    NewFile file(target());
    write(file, "b");
    file.commit(/*sync_name=*/true);
  }
  EXPECT_EQ(read_bytes(target()), "b") << "nothing of the first file's bytes";
  EXPECT_THAT(listing(), ElementsAre("a.png"));
}

TEST_F(NewFileTest, TwoWritersOfOneFileDoNotMeet) {
  NewFile first(target());
  NewFile second(target());
  write(first, "first");
  write(second, "the second");
  second.commit();
  EXPECT_EQ(read_bytes(target()), "the second");
  first.commit();
  EXPECT_EQ(read_bytes(target()), "first");
}

TEST_F(NewFileTest, WhatIsNoFileOfOursIsLeftAlone) {
  std::string hidden;
  {
    const PendingFile pending(target());
    hidden = pending.path().filename().native();
  }
  const fs::path precious = folder_.write("precious", "keep me");
  fs::create_symlink(precious, folder_.path() / hidden);
  {
    NewFile file(target());
    write(file, "b");
    file.commit();
  }
  fs::remove(folder_.path() / hidden);
  fs::create_hard_link(precious, folder_.path() / hidden);
  {
    NewFile file(target());
    write(file, "c");
    file.commit();
  }
  EXPECT_EQ(read_bytes(target()), "c");
  EXPECT_EQ(read_bytes(precious), "keep me");
  EXPECT_THAT(listing(), UnorderedElementsAre("a.png", "precious", hidden));
}

TEST_F(NewFileTest, NamesMayBeAsLongAsNamesCanBe) {
  const fs::path file = folder_.path() / (std::string(251, 'x') + ".png");
  NewFile(file).commit();
  EXPECT_EQ(fs::file_size(file), 0U);
}

TEST_F(NewFileTest, RefusesPlacesWhereNoFileCanBe) {
  EXPECT_ERROR(NewFile(folder_.path() / "absent" / "a.png"), unwritable, "cannot be created",
               "absent");
  EXPECT_ERROR(NewFile(folder_.path()), unwritable, "found a folder");
  EXPECT_ERROR(NewFile("/dev/null"), unwritable, "a device", "/dev/null");
}

}  // namespace new_file_test
}  // namespace hydrascope
