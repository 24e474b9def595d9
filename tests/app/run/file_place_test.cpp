#include "kernels/file_place.h"

#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <string>
#include <unistd.h>

namespace hydrascope {
namespace file_place_test {

namespace fs = std::filesystem;
using hydrascope::testing::TemporaryFolder;

class FilePlaceTest : public ::testing::Test {
 protected:
  /// The number of the stream that `name` is; -1: another process's, -2: none.
  [[nodiscard]] static int stream_of(const fs::path& name) {
    const auto stream = open_stream(name);
    return stream ? stream->descriptor.value_or(-1) : -2;
  }

  TemporaryFolder folder_;
};

TEST_F(FilePlaceTest, NamesOfStreams) {
  const std::string own = "/proc/" + std::to_string(::getpid());
  EXPECT_EQ(stream_of("/dev/stdin"), 0);
  EXPECT_EQ(stream_of("/dev/stdout"), 1);
  EXPECT_EQ(stream_of("/dev/stderr"), 2);
  EXPECT_EQ(stream_of("/dev/../dev//stdout"), 1);
  EXPECT_EQ(stream_of("/dev/fd/7"), 7) << "open or not";
  EXPECT_EQ(stream_of("/proc/self/fd/12"), 12);
  EXPECT_EQ(stream_of("/proc/thread-self/fd/3"), 3);
  EXPECT_EQ(stream_of(own + "/fd/1"), 1);
  EXPECT_EQ(stream_of(own + "/task/" + std::to_string(::getpid()) + "/fd/1"), 1);
  EXPECT_EQ(stream_of("/proc/" + std::to_string(::getppid()) + "/fd/1"), -1);
}

TEST_F(FilePlaceTest, LinksToStreams) {
  const fs::path one = folder_.path() / "one";
  const fs::path two = folder_.path() / "two";
  fs::create_symlink("/dev/stdout", one);
  fs::create_symlink("one", two);
  EXPECT_EQ(stream_of(two), 1);
  fs::create_directory_symlink("/dev", folder_.path() / "devices");
  EXPECT_EQ(stream_of(folder_.path() / "devices/fd/5"), 5);
}

TEST_F(FilePlaceTest, NamesThatOnlyLookLikeThem) {
  for (const char* name : {"/dev/null", "/dev/fd", "/dev/stdout2", "/proc/self/fd/x",
                           "/proc/self/fdinfo/1", "", "stdout", "1", "/"})
    EXPECT_EQ(stream_of(name), -2) << name;
  folder_.write("fd/1", "a file in a folder of that name");
  EXPECT_EQ(stream_of(folder_.path() / "fd/1"), -2);
  const fs::path ring = folder_.path() / "ring";
  fs::create_symlink("ring", ring);
  EXPECT_EQ(stream_of(ring), -2);
}

TEST(NeighbourTest, HasTheNameWithASuffix) {
  EXPECT_EQ(beside("a/b.jsonl", ".part"), "a/b.jsonl.part");
  EXPECT_EQ(beside("b", ".part"), "b.part");
}

}  // namespace file_place_test
}  // namespace hydrascope
