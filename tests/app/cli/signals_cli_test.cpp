// Commands that a signal stops.
#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <gmock/gmock.h>

#include <sys/ioctl.h>
#include <sys/stat.h>

namespace hydrascope::testing {
namespace signals_cli_test {

using ::testing::HasSubstr;

TEST(SignalsCliTest, WhatIsFinishedIsWritten) {
  const TemporaryFolder folder;
  const std::string picture = folder.write("a.ppm", ppm(40, 30)).string();
  for (const int number : {SIGINT, SIGHUP}) {
    Program program({"classify --format jsonl -"}, {});
    program.type(picture + "\n");
    Program::wait_until("a record", [&] { return program.output_so_far().ends_with('\n'); });
    program.signal(number);
    const Outcome outcome = program.wait_with_open_input();
    EXPECT_EQ(outcome.code, 128 + number);
    EXPECT_EQ(outcome.records().size(), 1U);
  }
}

TEST(SignalsCliTest, FaithfulnessPrintsWhatIsFinished) {
  const TemporaryFolder folder;
  const std::string model = (folder.path() / "model.safetensors").string();
  run_well(
      {"models create --arch deit_tiny_patch16_224 --num-classes 3 --img-size 64 --set seed=1 -o",
       model});
  std::string csv = "file,label\n";
  for (unsigned i = 0; i < 3; ++i)
    folder.write("pictures/" + std::to_string(i) + ".ppm", ppm(80, 70, 11 * i));
  for (int i = 0; i < 400; ++i) csv += std::to_string(i % 3) + ".ppm,0\n";
  Program program(
      {"faithfulness", folder.path() / "pictures", "--labels-csv", folder.write("labels.csv", csv),
       "-m", model, "--measure deletion --format json -v --device cpu"},
      {});
  Program::wait_until(
      "the set", [&] { return program.errors_so_far().find("labels: ") != std::string::npos; });
  program.signal(SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(" of 400 pictures"));
  if (outcome.out.empty()) {  // no table of nothing
    EXPECT_THAT(outcome.err, HasSubstr("stopped after 0 of"));
    return;
  }
  const nlohmann::json json = outcome.json();
  EXPECT_LT(json.at("images"), 400);
  EXPECT_EQ(json.at("images"), json.at("faithfulness").at("images"));
}

/// Whether the program has `file` open.
bool has_open(const Program& program, const std::string& file) {
  std::error_code gone;
  const std::string folder = "/proc/" + std::to_string(program.pid()) + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder, gone))
    if (std::filesystem::read_symlink(entry, gone) == file) {
      // Before its start a process has what this one has open.
      const auto exe =
          std::filesystem::read_symlink("/proc/" + std::to_string(program.pid()) + "/exe", gone);
      return exe.filename().string().starts_with("hydrascope-");
    }
  return false;
}

/// That a signal ends the program within two seconds. Returns what it had said.
Outcome expect_end(Program& program, int number) {
  const auto begin = std::chrono::steady_clock::now();
  program.signal(number);
  Outcome outcome = program.wait_with_open_input();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  EXPECT_EQ(outcome.code, 128 + number) << outcome.err;
  return outcome;
}

TEST(SignalsCliTest, AWaitForWhatNeedNotEndIsEnded) {
  const TemporaryFolder folder;
  const std::string picture = folder.write("set/a.ppm", ppm(40, 30)).string();
  const std::string set = (folder.path() / "set").string();
  const std::string pipe = (folder.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  struct Reading {
    Words words;
    std::string bytes = {};  ///< that a writer has written; none: nobody writes
    bool is_in_order = true;
  };
  for (const Reading& reading : std::initializer_list<Reading>{
           {{"classify -q", pipe}},
           {{"classify -q", pipe}, ppm(40, 30).substr(0, 1000)},
           {{"classify -q", "@" + pipe}},
           {{"classify -q", "@" + pipe}, picture.substr(0, picture.size() - 1)},
           {{"embed -q -o", (folder.path() / "s.safetensors").string(), pipe}},
           {{"compare --against-attn hydra", "@" + pipe}, "", false},
           {{"convert --processes 1 --attn hydra:last1 -o", set + "/m.safetensors", "-i",
             "@" + pipe},
            "",
            false},
           {{"evaluate", set, "--labels-csv", pipe}, "file,label\n", false},
           {{"classify", picture, "--config", pipe}, "{", false}}) {
    const int held =
        reading.bytes.empty() ? -1 : ::open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    const auto size = static_cast<ssize_t>(reading.bytes.size());
    ASSERT_EQ(size > 0 ? ::write(held, reading.bytes.data(), reading.bytes.size()) : 0, size);
    Program program(reading.words, {});
    Program::wait_until("a reader", [&] { return has_open(program, pipe); });
    // Some commands catch signals a moment after they have opened what they read.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const Outcome outcome = expect_end(program, SIGTERM);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err.find("stopped by a signal") == std::string::npos, reading.is_in_order)
        << outcome.err;
    if (held >= 0) ::close(held);
  }
  Program program({"classify -q @/dev/zero"}, {});
  Program::wait_until("a reader", [&] { return has_open(program, "/dev/zero"); });
  EXPECT_EQ(expect_end(program, SIGINT).out, "");
  // A video is read from a file alone, and so are labels.
  const std::string video = (folder.path() / "pipe.mp4").string();
  ASSERT_EQ(::mkfifo(video.c_str(), 0600), 0);
  expect_error(3, {}, {"classify -q", video});
  expect_error(1, {"found a pipe or a device"}, {"classify --labels", pipe, picture});
}

TEST(SignalsCliTest, AWaitForAReaderIsEnded) {
  const TemporaryFolder folder;
  const std::string picture = folder.write("a.ppm", ppm(40, 30)).string();
  const std::string pipe = (folder.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Words words = {"classify -v --format json --topk 1000", picture, "-o", pipe};
  {
    Program program(words, {});
    Program::wait_until("a model", [&] { return !program.errors_so_far().empty(); });
    expect_end(program, SIGTERM);
  }
  // One that has opened the pipe and does not read.
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GT(::fcntl(reader, F_SETPIPE_SZ, 4096), 0);
  Program program(words, {});
  int count = 0;
  Program::wait_until("a full pipe",
                      [&] { return ::ioctl(reader, FIONREAD, &count) == 0 && count == 4096; });
  EXPECT_THAT(expect_end(program, SIGTERM).err, HasSubstr("not everything could be written"));
  ::close(reader);
}

}  // namespace signals_cli_test
}  // namespace hydrascope::testing
