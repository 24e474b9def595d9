// Runs that an earlier version began and this one finishes: tests/data/states/README.md.
#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace hydrascope::testing {
namespace old_files_cli_test {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::HasSubstr;

class OldFilesCliTest : public ::testing::TestWithParam<std::string> {
 protected:
  OldFilesCliTest() {
    fs::copy(states() / GetParam(), folder_.path(), fs::copy_options::recursive);
    for (unsigned i = 0; i < 4; ++i) {
      const std::string name = std::string(i % 2 == 0 ? "a" : "b") + "/" + std::to_string(i);
      folder_.write("set/" + name + ".ppm", ppm(40, 32, i));
    }
  }
  static fs::path states() { return fs::path(HYDRASCOPE_SOURCE_DIR) / "tests/data/states"; }
  [[nodiscard]] Outcome run_here(Words words) const {
    words += Words{"--threads 1 --device cpu --resume auto"};
    RunOptions here;
    here.working_directory = folder_.path();
    return run(words, here);
  }

  TemporaryFolder folder_;

 public:
  static std::vector<std::string> versions() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(states()))
      if (entry.is_directory()) names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
};

TEST_P(OldFilesCliTest, TrainingGoesOn) {
  const Outcome outcome =
      run_here({"train set -m tiny -o trained --epochs 60 --batch-size 2 --format json --amp-dtype "
                "bfloat16"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("resumed at step 21 of 120"));
  EXPECT_EQ(outcome.json().at("steps"), 120);
  EXPECT_EQ(outcome.json().at("complete"), true);
}

TEST_P(OldFilesCliTest, AConversionGoesOn) {
  const Outcome outcome =
      run_here({"convert --from tiny --attn hedgehog:0 -i set -o converted.safetensors --held-out "
                "2 -b 2 --batch-size-maps 2 --steps-maps 4 --epochs 100 --evaluations 50 --workers "
                "1",  // What the processor that made the state chose by itself.
                "--amp-dtype", "bfloat16"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("resumed at step "));
}

INSTANTIATE_TEST_SUITE_P(Of, OldFilesCliTest, ::testing::ValuesIn(OldFilesCliTest::versions()),
                         [](const auto& version) {
                           std::string name = version.param;
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

}  // namespace old_files_cli_test
}  // namespace hydrascope::testing
