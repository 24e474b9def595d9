// Commands that a signal stops.
#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <gmock/gmock.h>

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
  run_well({"models create --arch deit_tiny_patch16_224 --num-classes 3 --img-size 64 --seed 1 -o",
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

}  // namespace signals_cli_test
}  // namespace hydrascope::testing
