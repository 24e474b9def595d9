#include "app/run/signal_stop.h"

#include "kernels/input_file.h"
#include "tests/error_matchers.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
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
  EXPECT_EQ(g_stop_signal, 0);
  EXPECT_EQ(exit_code_after_stop(3), 3);
}

TEST_F(SignalStopTest, TheFirstSignalOnlyRaisesTheFlag) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          install_signal_handlers();
          ::raise(number);
          end(stop_requested() && g_stop_signal == number &&
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
  InputFile stream(pipe.reading);
  std::string line;
  std::string all;
  while (std::getline(stream, line)) all += line + '\n';
  EXPECT_EQ(all, text);
  ::close(pipe.reading);
}

TEST_F(SignalStopTest, NoMoreIsReadThanAsked) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder.write("a.txt", "abcdef");
  EXPECT_EQ(InputFile(file).text(), "abcdef");
  EXPECT_EQ(InputFile(file).text(6), "abcdef");
  EXPECT_EQ(InputFile(file).text(4), "abcde");
  EXPECT_EQ(InputFile("/dev/zero").text(3), std::string(4, '\0'));
}

TEST_F(SignalStopTest, WhatCannotBeReadIsAnError) {
  const testing::TemporaryFolder folder;
  EXPECT_FALSE(InputFile(folder.path())) << "a folder";
  EXPECT_EQ(errno, EISDIR);
  EXPECT_FALSE(InputFile(folder.path() / "missing"));
  EXPECT_EQ(errno, ENOENT);
  const Pipe pipe = open_pipe();
  ::close(pipe.reading);
  ::close(pipe.writing);
  InputFile closed(pipe.reading);
  EXPECT_ERROR(closed.get(), unreadable, "reading failed: Bad file descriptor", "standard input");
}

/// Whether reading `file` throws what a stop does, within two seconds of a signal.
bool is_stopped(const std::string& file) {
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::kill(::getpid(), SIGTERM);
  });
  const auto begin = std::chrono::steady_clock::now();
  InputFile input(file);
  bool is_stopped = false;
  try {
    while (input.get() != std::istream::traits_type::eof()) continue;
  } catch (const Error& error) {
    is_stopped = error.code() == ErrorCode::failed && error.subject() == file;
  }
  later.join();
  return is_stopped && g_stop_signal == SIGTERM &&
         std::chrono::steady_clock::now() - begin < std::chrono::seconds(2);
}

TEST_F(SignalStopTest, AWaitForInputEndsWithTheSignal) {
  const std::string silent = "/proc/self/fd/" + std::to_string(open_pipe().reading);
  for (const std::string& file : {silent, std::string("/dev/zero")}) {
    EXPECT_EXIT(
        {
          install_signal_handlers();
          end(is_stopped(file));
        },
        ::testing::ExitedWithCode(0), "")
        << file;
  }
}

TEST_F(SignalStopTest, AFileIsReadToItsEndAllTheSame) {
  EXPECT_EXIT(
      {
        install_signal_handlers();
        ::raise(SIGTERM);
        end(InputFile("/proc/self/status").text().find("\nPid:") != std::string::npos);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace hydrascope::app
