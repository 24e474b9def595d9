#include "model/image/decoders/captured_messages.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace hydrascope::image {
namespace captured_messages_test {

/// Whether two descriptors stand for the same file.
bool are_one_file(int a, int b) {
  struct stat of_a {};
  struct stat of_b {};
  return ::fstat(a, &of_a) == 0 && ::fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

TEST(CapturedMessagesTest, StderrIsTheFileThatItWas) {
  EXPECT_EQ(::fileno(stderr), STDERR_FILENO);
  const CapturedMessages messages;
  EXPECT_EQ(::fileno(stderr), STDERR_FILENO);
  EXPECT_EQ(::isatty(::fileno(stderr)), ::isatty(STDERR_FILENO));
}

TEST(CapturedMessagesTest, WhatThisThreadPrintsIsCollectedAndWhatOthersPrintIsNot) {
  ::testing::internal::CaptureStderr();  // what reaches the descriptor
  const int descriptor = ::fileno(stderr);
  EXPECT_TRUE(are_one_file(descriptor, STDERR_FILENO));
  std::string collected;
  {
    const CapturedMessages messages;
    std::fprintf(stderr, "libpng warning: %s\n", "iCCP");
    std::cerr << "imdecode_: " << 5 << '\n';
    std::thread([] {
      std::fputs("from C\n", stderr);
      std::cerr << "from C++\n";
    }).join();
    collected = messages.text();
  }
  std::fputs("after\n", stderr);
  EXPECT_EQ(collected, "libpng warning: iCCP imdecode_: 5");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "from C\nfrom C++\nafter\n");
}

TEST(CapturedMessagesTest, MutedThreadsPrintNothingToC) {
  ::testing::internal::CaptureStderr();
  {
    const MutedCodecThreads muted;
    std::fputs("a damaged frame\n", stderr);
    std::cerr << "a note\n";
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "a note\n");
}

}  // namespace captured_messages_test
}  // namespace hydrascope::image
