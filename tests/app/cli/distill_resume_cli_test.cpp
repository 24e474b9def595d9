// Conversions that were ended and go on.
#include "model/checkpoint/formats/safetensors.h"
#include "tests/app/cli/distill_cli.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace hydrascope::testing {
namespace distill_resume_cli_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST_F(DistillCli, GoesOnBetweenTwoLooks) {
  const Words more{"--attn hedgehog:10,hydra:11 --epochs 4 --evaluations 1 --recovery-interval 3"};
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

TEST_F(DistillCli, AStateOfAnotherRunIsRefusedBeforeAnythingIsComputed) {
  run_well(command("one.safetensors", {"--attn hydra:last1 --stage maps"}));
  const fs::path states = in("one.safetensors.training");
  for (const auto& [file, text] :
       {std::pair("step-4.state.safetensors", "is no state of the run in"),
        std::pair("best.safetensors", "expected a state")}) {
    expect_error(
        2, {text},
        command("two.safetensors", {"--attn hydra:last1 --stage maps --resume", states / file}));
  }
}

TEST_F(DistillCli, AnInterruptedRunLeavesAModelAndEndsAsAnUninterruptedOne) {
  const Words more{"--attn hedgehog:10,hydra:11 --epochs 8 --evaluations 8 --model-ema"};
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
      "--attn hedgehog:10,hydra:11 --epochs 8 --mixup 1 --resume auto --evaluations 8"};
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

TEST_F(DistillCli, AnOlderStateGoesOnWithTheBestWeightsOfItsTime) {
  const Words more{"--attn hydra:last2 --checkpoint-hist 20 --evaluations 4"};
  run_well(command("whole.safetensors", more));
  const std::string whole = read_bytes(in("whole.safetensors"));
  const fs::path states = in("whole.safetensors.training");
  Words again = more + Words{"--resume", states / "step-4.state.safetensors"};
  // Stopped at once: what it leaves is of the state and not of the run that was abandoned.
  Words stopped = again + Words{"--max-minutes 0.00001"};
  run_well(command("whole.safetensors", stopped));
  EXPECT_FALSE(whole == read_bytes(in("whole.safetensors")));
  run_well(command("whole.safetensors", again));
  EXPECT_TRUE(whole == read_bytes(in("whole.safetensors")));
}

TEST_F(DistillCli, TheSameNumberWrittenOtherwiseIsTheSameRun) {
  const Words quick{"--attn hydra:last1 --stage maps"};
  const auto with = [&](const Words& more) { return command("out.safetensors", quick + more); };
  run_well(with({"--lr-outputs 1e-4"}));
  run_well(with({"--lr-outputs 0.0001 --resume auto"}));
  const Outcome other = run(with({"--lr-outputs 2e-4 --resume auto"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("other settings: lr-outputs"));
  expect_error(2, {"other settings: transform"},
               with({"--lr-outputs 1e-4 --mean 0.1 0.2 0.3 --resume auto"}));
}

// Sizes alone are learned without another attention, too; interrupted and resumed it is the same run.
TEST_F(DistillCli, LearnsSizesAndResumesTheirStage) {
  const Words sizes{"--sizes",   "16,24,16x32", "--scenes",      in("pictures").string(),
                    "--mosaics", "0.3",         "--steps-sizes", "6"};
  const auto with = [&](Words words) {
    words += sizes;
    return words;
  };
  const Json report = run_well(command("sizes.safetensors", with({"--format json"}))).json();
  ASSERT_EQ(report["stages"].size(), 1);
  EXPECT_EQ(report["stages"][0]["stage"], "sizes");
  EXPECT_EQ(report["stages"][0]["steps"], 6);
  const std::int64_t images = report["stages"][0]["images"];
  EXPECT_GE(images, 6) << "a part per step";
  EXPECT_LT(images, 6 * 4) << "large sizes show fewer";
  EXPECT_EQ(report["attention"], "softmax");
  EXPECT_EQ(report["complete"], true);
  EXPECT_LE(report["divergence"], report["divergence_before"]);

  const Json stages =
      run_well(command("both.safetensors", with({"--attn hydra:last1 --format json"})))
          .json()["stages"];
  ASSERT_EQ(stages.size(), 3);
  EXPECT_EQ(stages[2]["stage"], "sizes");
  run_well(command("parts.safetensors",
                   with({"--attn hydra:last1 --recovery-interval 1 --max-minutes 0.0001"})));
  EXPECT_EQ(checkpoint::SafetensorsFile::open(in("parts.safetensors")).metadata().at("complete"),
            "no");
  const Outcome resumed = run_well(
      command("parts.safetensors", with({"--attn hydra:last1 --resume auto --format json"})));
  EXPECT_THAT(resumed.err, HasSubstr("resumed at step"));
  EXPECT_EQ(resumed.json()["complete"], true);
  EXPECT_EQ(resumed.json()["stages"][2]["steps"], 6);
  EXPECT_EQ(resumed.json()["stages"][2]["images"], stages[2]["images"]);
}

}  // namespace distill_resume_cli_test
}  // namespace hydrascope::testing
