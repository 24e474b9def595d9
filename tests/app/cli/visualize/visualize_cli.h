// `hydrascope visualize` in a folder of its own.
#pragma once

#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <iterator>
#include <string>
#include <vector>

namespace hydrascope::testing {

class VisualizeCliTest : public ::testing::Test {
 protected:
  Outcome visualize(Words arguments) {
    return run(Words{"visualize --format jsonl --device cpu --set progress=off"} + arguments,
               {"", folder_.path(), {}});
  }
  /// The output of a run that must succeed.
  std::vector<nlohmann::json> records(const Words& arguments) {
    const Outcome outcome = visualize(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err << outcome.out;
    return outcome.code == 0 ? outcome.records() : std::vector<nlohmann::json>();
  }
  [[nodiscard]] std::filesystem::path path(const std::string& name) const {
    return folder_.path() / name;
  }
  std::string picture(const std::string& name, int width, int height, unsigned seed = 0) {
    folder_.write(name, ppm(width, height, seed));
    return name;
  }
  std::size_t files_in(const std::string& name) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path(name)),
                                                  std::filesystem::directory_iterator()));
  }

  TemporaryFolder folder_;
};

}  // namespace hydrascope::testing
