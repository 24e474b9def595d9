// `hydrascope convert` that trains: a tiny architecture on pictures that the test draws.
#pragma once

#include "tests/app/cli/program.h"
#include "tests/picture_files.h"

#include <string>

namespace hydrascope::testing {

class DistillCli : public ::testing::Test {
 protected:
  DistillCli() {
    for (unsigned i = 0; i < 24; ++i) {
      // Two classes for --eval, which have nothing to do with what the model says.
      const std::string name = (i % 2 == 0 ? "even/" : "odd/") + std::to_string(i) + ".ppm";
      folder_.write("pictures/" + name, ppm(20, 20, i * 37));
    }
    run_well({"models create --arch deit_tiny_patch8_16 --num-classes 2 --set seed=1 -o",
              in("teacher.safetensors")});
  }

  Words command(const std::string& output, const Words& more = {}) const {
    return Words{
               "convert -m",
               in("teacher.safetensors"),
               "-i",
               in("pictures"),
               "-o",
               in(output),
               "--held-out 6 -b 4 --set maps.batch-size=2 --set steps-maps=4 --set steps-outputs=4 "
               "--epochs 2 --set last.evaluations=2 --set run.log-interval=2 --threads 1 "
               "--set workers=1 --device cpu"} +
           more;
  }
  std::filesystem::path in(const std::string& name) const { return folder_.path() / name; }

  TemporaryFolder folder_;
};

}  // namespace hydrascope::testing
