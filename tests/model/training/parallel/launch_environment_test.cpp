#include "model/training/parallel/launch_environment.h"

#include "tests/error_matchers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace hydrascope::model::training {
namespace {

class LaunchEnvironmentTest : public ::testing::Test {
 protected:
  LaunchEnvironmentTest() { clear(); }
  ~LaunchEnvironmentTest() override { clear(); }

  static void set(const std::map<std::string, std::string>& values) {
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
  }
  static void set_all() {
    set({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "host"}, {"MASTER_PORT", "29500"}});
  }

 private:
  static void clear() {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                             "TORCHELASTIC_USE_AGENT_STORE"})
      unsetenv(name);
  }
};

TEST_F(LaunchEnvironmentTest, NothingMeansOneProcess) {
  const LaunchEnvironment launch = read_launch_environment();
  EXPECT_FALSE(launch.has_others());
  EXPECT_TRUE(launch.is_first());
}

TEST_F(LaunchEnvironmentTest, AWorldOfOneNeedsNothingElse) {
  set({{"WORLD_SIZE", "1"}});
  EXPECT_FALSE(read_launch_environment().has_others());
}

TEST_F(LaunchEnvironmentTest, AShellLoopNeedsFourVariables) {
  set_all();
  const LaunchEnvironment launch = read_launch_environment();
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.world_size, 4);
  EXPECT_EQ(launch.local_world_size, 1);
  EXPECT_EQ(launch.master_addr, "host");
  EXPECT_EQ(launch.master_port, 29500);
  EXPECT_FALSE(launch.agent_store);
}

TEST_F(LaunchEnvironmentTest, TorchrunSaysMore) {
  set_all();
  set({{"LOCAL_WORLD_SIZE", "2"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  const LaunchEnvironment launch = read_launch_environment();
  EXPECT_EQ(launch.local_world_size, 2);
  EXPECT_TRUE(launch.agent_store);
}

TEST_F(LaunchEnvironmentTest, AllOrNone) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    set_all();
    unsetenv(name);
    EXPECT_ERROR(read_launch_environment(), invalid_argument, name, "is not set");
  }
}

TEST_F(LaunchEnvironmentTest, WrongValuesNameTheVariable) {
  const std::map<std::string, std::vector<std::string>> wrong = {
      {"RANK", {"-1", "4", "1x", "one"}},
      {"WORLD_SIZE", {"0", "-2", "4.0"}},
      {"MASTER_PORT", {"0", "65536", "http"}},
      {"LOCAL_WORLD_SIZE", {"0", "5"}}};
  for (const auto& [name, values] : wrong) {
    for (const std::string& value : values) {
      set_all();
      set({{name, value}});
      EXPECT_ERROR(read_launch_environment(), invalid_argument, name.c_str(), value.c_str());
    }
    unsetenv(name.c_str());
  }
}

}  // namespace
}  // namespace hydrascope::model::training
