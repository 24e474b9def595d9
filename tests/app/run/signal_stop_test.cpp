#include "app/run/signal_stop.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <istream>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

namespace hydrascope::app {
namespace {

/// The flag is set for good, so each case lives in a process of its own, which ends with 0 when all
/// was as expected.
class SignalStopTest : public ::testing::Test {
 protected:
  SignalStopTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

struct Pipe {
  int reading = -1;
  int writing = -1;
};

Pipe open_pipe() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  return {ends[0], ends[1]};
}

[[noreturn]] void end(bool as_expected) { _exit(as_expected ? 0 : 99); }

TEST_F(SignalStopTest, NothingIsRequestedAtFirst) {
  EXPECT_FALSE(stop_requested());
  EXPECT_EQ(stop_signal(), 0);
  EXPECT_EQ(exit_code_after_stop(3), 3);
}

TEST_F(SignalStopTest, TheFirstSignalOnlyRaisesTheFlag) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          install_signal_handlers();
          ::raise(number);
          end(stop_requested() && stop_signal() == number &&
              exit_code_after_stop(0) == 128 + number);
        },
        ::testing::ExitedWithCode(0), "");
  }
}

TEST_F(SignalStopTest, TheSecondSignalEndsAtOnce) {
  EXPECT_EXIT(
      {
        install_signal_handlers();
        ::raise(SIGINT);
        ::raise(SIGTERM);
        end(false);
      },
      ::testing::ExitedWithCode(143), "");
  EXPECT_EXIT(
      {
        install_signal_handlers();
        ::raise(SIGINT);
        ::raise(SIGINT);
        end(false);
      },
      ::testing::ExitedWithCode(130), "");
}

TEST_F(SignalStopTest, InheritedIgnoranceIsUndone) {
  EXPECT_EXIT(
      {
        ::signal(SIGINT, SIG_IGN);
        install_signal_handlers();
        ::raise(SIGINT);
        end(stop_requested());
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(SignalStopTest, WhatNohupAskedForStays) {
  EXPECT_EXIT(
      {
        ::signal(SIGHUP, SIG_IGN);
        install_signal_handlers();
        ::raise(SIGHUP);
        end(!stop_requested());
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(SignalStopTest, ABrokenPipeEndsQuietly) {
  EXPECT_EXIT(
      {
        ::signal(SIGPIPE, SIG_IGN);
        install_signal_handlers();
        const Pipe pipe = open_pipe();
        ::close(pipe.reading);
        // Does not return.
        end(::write(pipe.writing, "x", 1) == 1);
      },
      ::testing::KilledBySignal(SIGPIPE), "");
}

TEST_F(SignalStopTest, InputIsReadToItsEnd) {
  const Pipe pipe = open_pipe();
  const std::string text = "a.jpg\nb.jpg\n";
  ASSERT_EQ(::write(pipe.writing, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(pipe.writing);
  StoppableInput input(pipe.reading);
  std::istream stream(&input);
  std::string line;
  std::string all;
  while (std::getline(stream, line)) all += line + '\n';
  EXPECT_EQ(all, text);
  ::close(pipe.reading);
}

TEST_F(SignalStopTest, AWaitForInputEndsWithTheSignal) {
  EXPECT_EXIT(
      {
        install_signal_handlers();
        const Pipe pipe = open_pipe();
        std::thread later([] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          ::kill(::getpid(), SIGTERM);
        });
        StoppableInput input(pipe.reading);
        const bool at_end = input.sgetc() == std::streambuf::traits_type::eof();
        later.join();
        end(at_end && stop_signal() == SIGTERM);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(SignalStopTest, AClosedDescriptorIsAtItsEnd) {
  const Pipe pipe = open_pipe();
  ::close(pipe.reading);
  ::close(pipe.writing);
  StoppableInput input(pipe.reading);
  EXPECT_EQ(input.sgetc(), std::streambuf::traits_type::eof());
}

}  // namespace
}  // namespace hydrascope::app
