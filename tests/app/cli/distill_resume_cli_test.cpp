// Conversions that were ended and go on.
#include "tests/app/cli/distill_cli.h"

#include <gmock/gmock.h>

namespace hydrascope::testing {
namespace distill_resume_cli_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST_F(DistillCli, GoesOnBetweenTwoLooks) {
  const Words more{
      "--attn hedgehog:10,hydra:11 --epochs 4 --set last.evaluations=1 --set "
      "run.recovery-interval=3"};
  run_well(command("whole.safetensors", more));
  {
    Program program(command("parts.safetensors", more), {});
    Program::wait_for(in("parts.safetensors.training") / "step-3.state.safetensors");
    program.signal(SIGKILL);
    ASSERT_EQ(program.wait().code, 128 + SIGKILL);
  }
  Words again = more + Words{"--resume auto"};
  const Outcome resumed = run_well(command("parts.safetensors", again));
  EXPECT_THAT(resumed.err, HasSubstr("resumed at step "));
  EXPECT_TRUE(read_bytes(in("whole.safetensors")) == read_bytes(in("parts.safetensors")));
}

TEST_F(DistillCli, AnInterruptedRunLeavesAModelAndEndsAsAnUninterruptedOne) {
  const Words more{
      "--attn hedgehog:10,hydra:11 --epochs 8 --set last.evaluations=8 --set model-ema=on"};
  run_well(command("whole.safetensors", more));
  {
    Program program(command("parts.safetensors", more), {});
    Program::wait_for(in("parts.safetensors.training") / "last.safetensors");
    program.signal(SIGINT);
    const Outcome outcome = program.wait();
    ASSERT_EQ(outcome.code, 130) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("--resume auto"));
  }
  EXPECT_TRUE(fs::exists(in("parts.safetensors")));
  Words again = more + Words{"--resume auto"};
  const Outcome resumed = run_well(command("parts.safetensors", again));
  EXPECT_THAT(resumed.err, HasSubstr("resumed at step "));
  for (const char* name : {"last.safetensors", "best.safetensors"}) {
    EXPECT_TRUE(read_bytes(in("whole.safetensors.training") / name) ==
                read_bytes(in("parts.safetensors.training") / name))
        << name;
  }
  EXPECT_TRUE(read_bytes(in("whole.safetensors")) == read_bytes(in("parts.safetensors")));
}

TEST_F(DistillCli, AKilledRunEndsAsAnUninterruptedOne) {
  const Words more{
      "--attn hedgehog:10,hydra:11 --epochs 8 --set mixup=1 --resume auto --set "
      "last.evaluations=8"};
  run_well(command("whole.safetensors", more));
  {
    Program program(command("parts.safetensors", more), {});
    Program::wait_for(in("parts.safetensors.training") / "last.safetensors");
    program.signal(SIGKILL);
    ASSERT_EQ(program.wait().code, 128 + SIGKILL);
  }
  const Outcome resumed = run_well(command("parts.safetensors", more));
  EXPECT_THAT(resumed.err, HasSubstr("resumed at step "));
  EXPECT_TRUE(read_bytes(in("whole.safetensors")) == read_bytes(in("parts.safetensors")));
}

}  // namespace distill_resume_cli_test
}  // namespace hydrascope::testing
