#include "app/pictures/inputs.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <vector>

namespace hydrascope::app {
namespace input_count_test {

using ::testing::HasSubstr;
using ::testing::Not;

class InputCountTest : public ::testing::Test {
 protected:
  InputCountTest() {
    for (const char* name : {"a.jpg", "b.jpg", "sub/c.jpg", "text.txt", "clip/d.mp4"})
      folder_.write(name);
    folder_.write("list.txt", "a.jpg\nsub\nb.jpg\n");
  }
  std::string path(const char* name) const { return (folder_.path() / name).string(); }

  /// What the progress says once it has a total, or, without one, what it goes on saying.
  std::string shown(std::vector<std::string> words, bool recursive, bool has_total,
                    std::function<bool(std::int64_t)> takes = {}) {
    ProgressOptions options;
    options.style = ProgressStyle::bar;
    double now = 0;
    options.seconds = [&now] { return now += 1; };
    std::ostringstream out;
    Progress progress(options, out);
    std::string last;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    {
      InputCount count(std::move(words), recursive, progress, std::move(takes));
      progress.advance();
      count.begin();
      count.begin();
      do {
        out.str("");
        progress.advance(0);
        last = out.str();
        if (has_total) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      } while (has_total && last.find('/') == last.rfind('/') &&
               std::chrono::steady_clock::now() < deadline);
    }
    out.str("");
    progress.advance(0);
    return out.str();
  }

  testing::TemporaryFolder folder_;
};

TEST_F(InputCountTest, FoldersListsAndPatternsHaveATotal) {
  const std::string all = folder_.path().string();
  EXPECT_THAT(shown({all}, false, true), HasSubstr("1/2 "));
  EXPECT_THAT(shown({path("*.jpg"), path("sub")}, false, true), HasSubstr("1/3 "));
  EXPECT_THAT(shown({"@" + path("list.txt")}, false, true), HasSubstr("1/3 "));
  EXPECT_THAT(shown({all, path("a.jpg"), path("missing.jpg")}, true, true), HasSubstr("1/5 "))
      << "what fails is an input, too";
}

TEST_F(InputCountTest, AProcessCountsItsShare) {
  const auto even = [](std::int64_t number) { return number % 2 == 0; };
  EXPECT_THAT(shown({folder_.path().string()}, true, true, even), HasSubstr("1/2 "));
}

TEST_F(InputCountTest, WhatCanBeReadOnceOrHasUnknownFramesHasNone) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& word : {std::string("-"), "@" + pipe, path("clip/d.mp4")})
    EXPECT_THAT(shown({folder_.path().string(), word}, false, false), HasSubstr("1 images  "))
        << word;
}

}  // namespace input_count_test
}  // namespace hydrascope::app
