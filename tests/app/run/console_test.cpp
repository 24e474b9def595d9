#include "app/run/console.h"

#include "app/run/output_file.h"
#include "app/run/signal_stop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <ostream>
#include <pty.h>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace hydrascope::app {
namespace {

TEST(Spelled, NamesOptionsAsTheFrontEndDoes) {
  EXPECT_EQ(spelled("`precision` int8 with `check_precision` 5"),
            "--precision int8 with --check-precision 5");
  EXPECT_EQ(spelled("`precision` int8 with `check_precision` 5", Spelling::names),
            "precision int8 with check_precision 5");
  EXPECT_EQ(spelled("`hydrascope doctor` or `device` cpu, not_this"),
            "`hydrascope doctor` or --device cpu, not_this");
  for (const char* text : {"", "`", "a ` b", "`No field`", "``", "names like `A` and `-b`"})
    EXPECT_EQ(spelled(text), text);
  EXPECT_EQ(spelled(std::vector<std::string>{"a", "`check_it` takes them"}),
            (std::vector<std::string>{"a", "--check-it takes them"}));
  spell_options_as(Spelling::names);
  EXPECT_EQ(spelled("`check_it`"), "check_it");
  spell_options_as(Spelling::flags);
}

TEST(ErrorText, NamesWhatWhereAndWhatToDo) {
  EXPECT_EQ(error_text(Error(ErrorCode::failed, "what `num_classes` says", "`img_size`",
                             "`device` cpu has more")),
            "what --num-classes says (--img-size)\nhint: --device cpu has more");
  EXPECT_EQ(error_line(Error(ErrorCode::failed, "what", "`img_size` 12x", "hint"), Spelling::names),
            "what (img_size 12x)");
  EXPECT_EQ(error_text(Error(ErrorCode::failed, "what")), "what");
  // A name of the user's stays as it is.
  EXPECT_EQ(error_text(Error(ErrorCode::not_found, "none", "`model` a`lr`.png")),
            "none (--model a`lr`.png)");
  EXPECT_EQ(error_text(Error(ErrorCode::not_found, "none", "a`lr`.png")), "none (a`lr`.png)");
  EXPECT_EQ(error_text(Error(ErrorCode::failed, "two", "`native` with `img_size`")),
            "two (--native with --img-size)");
  EXPECT_EQ(error_text(Error(ErrorCode::failed, "what\nelse", "a\x1b[31m.png", "do\tit")),
            "what\\nelse (a\\x1b[31m.png)\nhint: do\\tit");
}

TEST(AtomicWritesTest, WritesAtAFlushOnly) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  AtomicWrites buffer(ends[1]);
  std::ostream out(&buffer);
  out << "one " << 2 << '\n';
  out.flush();
  out << "lost";
  close(ends[1]);
  std::array<char, 64> bytes{};
  const ssize_t count = read(ends[0], bytes.data(), bytes.size());
  ASSERT_EQ(count, 6);
  EXPECT_EQ(std::string(bytes.data(), 6), "one 2\n");
  close(ends[0]);
}

TEST(AtomicWritesTest, AFailureIsOneOfTheStream) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  for (const int end : ends) close(end);
  AtomicWrites buffer(ends[1]);
  std::ostream out(&buffer);
  out << "nowhere";
  out.flush();
  EXPECT_FALSE(out);
}

TEST(AtomicWritesTest, LinesOfSeveralProcessesAreNotTorn) {
  constexpr int kProcesses = 3;
  constexpr int kLines = 60;
  constexpr std::size_t kLength = 50'000;  // of a pipe's 65,536 bytes, far above PIPE_BUF
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  for (int process = 0; process < kProcesses; ++process) {
    if (fork() != 0) continue;
    close(ends[0]);
    AtomicWrites buffer(ends[1]);
    std::ostream out(&buffer);
    for (int line = 0; line < kLines; ++line)
      out << std::string(kLength, static_cast<char>('a' + process)) << '\n' << std::flush;
    _exit(out ? 0 : 1);
  }
  close(ends[1]);
  std::string all;
  std::vector<char> bytes(1 << 16);
  for (ssize_t count = 0; (count = read(ends[0], bytes.data(), bytes.size())) > 0;)
    all.append(bytes.data(), static_cast<std::size_t>(count));
  close(ends[0]);
  for (int process = 0; process < kProcesses; ++process) {
    int status = 0;
    wait(&status);
    EXPECT_EQ(status, 0);
  }
  ASSERT_EQ(all.size(), kProcesses * kLines * (kLength + 1));
  for (std::size_t begin = 0; begin < all.size(); begin += kLength + 1) {
    ASSERT_EQ(all[begin + kLength], '\n');
    const std::string line = all.substr(begin, kLength);
    ASSERT_EQ(std::ranges::count(line, line[0]), static_cast<std::ptrdiff_t>(kLength));
  }
}

/// Ends with 0 where a write that waits, for room in a pipe or for another process's lock on it, has
/// failed within two seconds of a signal.
[[noreturn]] void write_until_stopped(bool is_locked) {
  install_signal_handlers();
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) _exit(98);
  const auto try_lock = [&](int command) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    fcntl(ends[1], command, &lock);
    return lock.l_type == F_WRLCK;
  };
  const pid_t parent = getpid();
  if (const pid_t other = is_locked ? fork() : 1; other == 0) {
    try_lock(F_SETLK);
    while (getppid() == parent) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    _exit(0);
  }
  while (is_locked && !try_lock(F_GETLK)) std::this_thread::yield();
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    kill(getpid(), SIGTERM);
  });
  AtomicWrites buffer(ends[1]);
  std::ostream out(&buffer);
  const auto begin = std::chrono::steady_clock::now();
  out << std::string(is_locked ? 1 : 1 << 20, 'x') << std::flush;
  const bool is_interrupted = errno == (is_locked ? EAGAIN : EINTR);
  const auto waited = std::chrono::steady_clock::now() - begin;
  later.join();
  _exit(!out && is_interrupted && waited < std::chrono::seconds(2) ? 0 : 99);
}

TEST(AtomicWritesTest, AStopEndsItsWaits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const bool is_locked : {false, true})
    EXPECT_EXIT(write_until_stopped(is_locked), ::testing::ExitedWithCode(0), "") << is_locked;
}

TEST(AtomicWritesTest, ATerminalGetsNoControlCharacters) {
  int terminal = -1;
  int program = -1;
  ASSERT_EQ(openpty(&terminal, &program, nullptr, nullptr, nullptr), 0);
  AtomicWrites to_terminal(program);
  std::ostringstream to_memory;
  std::ostream shown(&to_terminal);
  EXPECT_TRUE(to_terminal.is_terminal());
  EXPECT_EQ(text_for(shown, "a\x1b[2J\nb"), "a\\x1b[2J\\nb");
  EXPECT_EQ(text_for(to_memory, "a\x1b[2J\nb"), "a\x1b[2J\nb");
  for (const int end : {terminal, program}) close(end);
}

}  // namespace
}  // namespace hydrascope::app
