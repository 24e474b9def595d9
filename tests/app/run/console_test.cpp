#include "app/run/console.h"

#include "app/run/output_file.h"
#include "app/run/signal_stop.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ostream>
#include <pty.h>
#include <sstream>
#include <string>
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

/// Ends with 0 where a write that waits for room in a pipe has failed within two seconds of a signal.
[[noreturn]] void write_until_stopped() {
  install_signal_handlers();
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) _exit(98);
  std::thread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    kill(getpid(), SIGTERM);
  });
  AtomicWrites buffer(ends[1]);
  std::ostream out(&buffer);
  const auto begin = std::chrono::steady_clock::now();
  out << std::string(1 << 20, 'x') << std::flush;
  const bool is_interrupted = errno == EINTR;
  const auto waited = std::chrono::steady_clock::now() - begin;
  later.join();
  _exit(!out && is_interrupted && waited < std::chrono::seconds(2) ? 0 : 99);
}

TEST(AtomicWritesTest, AStopEndsItsWaits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(write_until_stopped(), ::testing::ExitedWithCode(0), "");
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
