// `hydrascope train` interrupted: a tiny architecture on pictures that the test draws.
#include "tests/app/cli/program.h"

#include <gmock/gmock.h>

namespace hydrascope::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Two classes that one look tells apart: dark and light pictures, with a folder to validate on.
class TrainCli : public ::testing::Test {
 protected:
  TrainCli() {
    for (const char* split : {"train", "val"}) {
      for (int i = 0; i < 8; ++i) {
        write_grey(folder_.path() / split / "dark" / (std::to_string(i) + ".ppm"), 20 + 5 * i);
        write_grey(folder_.path() / split / "light" / (std::to_string(i) + ".ppm"), 190 + 5 * i);
      }
    }
  }

  static void write_grey(const fs::path& file, int value) {
    fs::create_directories(file.parent_path());
    std::ofstream stream(file, std::ios::binary);
    constexpr int kSide = 16;
    stream << "P6\n" << kSide << ' ' << kSide << "\n255\n";
    for (int i = 0; i < kSide * kSide * 3; ++i) stream.put(static_cast<char>(value + (i % 7)));
  }

  /// Five tokens of DeiT-Tiny's width.
  Words command(const std::string& output, const Words& more) const {
    return Words{"train", folder_.path(), "-m deit_tiny_patch8_16 -o", folder_.path() / output,
                 "-b 8 --lr 1e-4 --threads 1 --set workers=1 --set warmup-epochs=0 --set "
                 "run.log-interval=1 "
                 "--device cpu"} +
           more;
  }
  fs::path in(const std::string& name) const { return folder_.path() / name; }
  /// A run's log after each epoch, which holds no times.
  std::vector<std::string> epochs_of(const std::string& run) const {
    std::istringstream lines(read_bytes(in(run) / "metrics.jsonl"));
    std::vector<std::string> epochs;
    for (std::string line; std::getline(lines, line);)
      if (line.find("\"train_loss\"") != std::string::npos) epochs.push_back(line);
    EXPECT_EQ(epochs.size(), 6U) << run;
    return epochs;
  }

  TemporaryFolder folder_;
};

TEST_F(TrainCli, AnInterruptedRunEndsAsAnUninterruptedOne) {
  const Words options{
      "--epochs 6 --set drop-path=0.1 --set mixup=0.8 --set cutmix=1 --set aa=rand-m9-mstd0.5-inc1 "
      "--set model-ema=on "
      "--set clip-grad=1"};
  run_well(command("whole", options));
  {
    Program program(command("parts", options), {});
    Program::wait_for(in("parts") / "best.safetensors");
    program.signal(SIGINT);
    ASSERT_EQ(program.wait().code, 130);
  }
  ASSERT_FALSE(fs::exists(in("parts") / "step-12.safetensors")) << "it was over too soon";
  Words again = options + Words{"--resume auto"};
  const Outcome resumed = run_well(command("parts", again));
  EXPECT_THAT(resumed.err, HasSubstr("resumed at step "));
  for (const char* file : {"step-12.safetensors", "best.safetensors"})
    EXPECT_TRUE(read_bytes(in("whole") / file) == read_bytes(in("parts") / file)) << file;
  EXPECT_EQ(epochs_of("whole"), epochs_of("parts"));
}

}  // namespace
}  // namespace hydrascope::testing
