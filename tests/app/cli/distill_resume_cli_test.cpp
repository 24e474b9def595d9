// Conversions that were ended and go on: a tiny architecture on pictures that the test draws.
#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <gmock/gmock.h>

namespace hydrascope::testing {
namespace distill_resume_cli_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// The end of a run: a signal as soon as its folder has a file.
struct Ending {
  const char* name;
  Words options;
  int signal;
  const char* awaited;
  Words begin;  ///< options of the first run alone
};

class DistillCli : public ::testing::TestWithParam<Ending> {
 protected:
  DistillCli() {
    for (unsigned i = 0; i < 24; ++i)
      folder_.write("pictures/" + std::to_string(i) + ".ppm", ppm(20, 20, i * 37));
    run_well({"models create --arch deit_tiny_patch8_16 --num-classes 2 --set seed=1 -o",
              in("teacher.safetensors")});
  }

  Words command(const std::string& output, const Words& more) const {
    return Words{"convert -m",
                 in("teacher.safetensors"),
                 "-i",
                 in("pictures"),
                 "-o",
                 in(output),
                 "--attn hedgehog:10,hydra:11 --held-out 6 -b 4 --set maps.batch-size=2 --set "
                 "steps-maps=4 --set steps-outputs=4 --set run.log-interval=2 --threads 1 "
                 "--set workers=1 --device cpu"} +
           GetParam().options + more;
  }
  fs::path in(const std::string& name) const { return folder_.path() / name; }

  TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(
    All, DistillCli,
    ::testing::Values(
        Ending{"KilledBetweenTwoLooks",
               Words{"--epochs 4 --set last.evaluations=1 --set run.recovery-interval=3"}, SIGKILL,
               "step-3.state.safetensors", Words()},
        Ending{"Interrupted", Words{"--epochs 8 --set last.evaluations=8 --set model-ema=on"},
               SIGINT, "last.safetensors", Words()},
        Ending{"Killed", Words{"--epochs 8 --set last.evaluations=8 --set mixup=1"}, SIGKILL,
               "last.safetensors", Words{"--resume auto"}}),
    [](const auto& ending) { return ending.param.name; });

TEST_P(DistillCli, ARunThatWasEndedEndsAsOneThatWasNot) {
  const Ending& ending = GetParam();
  run_well(command("whole.safetensors", ending.begin));
  {
    Program program(command("parts.safetensors", ending.begin), {});
    Program::wait_for(in("parts.safetensors.training") / ending.awaited);
    program.signal(ending.signal);
    const Outcome outcome = program.wait();
    ASSERT_EQ(outcome.code, 128 + ending.signal) << outcome.err;
    if (ending.signal == SIGINT) {
      EXPECT_THAT(outcome.err, HasSubstr("--resume auto"));
      EXPECT_TRUE(fs::exists(in("parts.safetensors")));
    }
  }
  const Outcome resumed = run_well(command("parts.safetensors", Words{"--resume auto"}));
  EXPECT_THAT(resumed.err, HasSubstr("resumed at step "));
  for (const char* name : {".training/last.safetensors", ".training/best.safetensors", ""})
    EXPECT_TRUE(read_bytes(in(std::string("whole.safetensors") + name)) ==
                read_bytes(in(std::string("parts.safetensors") + name)))
        << name;
}

}  // namespace distill_resume_cli_test
}  // namespace hydrascope::testing
