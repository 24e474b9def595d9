#include "tests/model/training/parallel/ranks.h"

#include "tests/temporary_folder.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace hydrascope::testing {
namespace {

constexpr const char* kIsRank = "HYDRASCOPE_TEST_IS_RANK";

/// This test again, as its own process.
pid_t start(const std::map<std::string, std::string>& environment,
            const std::filesystem::path& output) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter =
      std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
  const pid_t child = fork();
  if (child != 0) return child;
  for (const auto& [key, value] : environment) setenv(key.c_str(), value.c_str(), 1);
  unsetenv("GTEST_TOTAL_SHARDS");
  unsetenv("GTEST_SHARD_INDEX");
  const int file = open(output.c_str(), O_WRONLY | O_CREAT, 0600);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  execl("/proc/self/exe", "training_tests", filter.c_str(), nullptr);
  _exit(127);
}

/// 0 .. 255, 128 + signal, or nothing when it had to be killed.
std::optional<int> wait_for(pid_t child, std::chrono::steady_clock::time_point deadline) {
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return std::nullopt;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

bool run_as_ranks(int world_size, const RankOptions& options) {
  if (std::getenv(kIsRank) != nullptr) return false;
  c10d::TCPStoreOptions store_options;
  store_options.port = 0;
  store_options.isServer = true;
  store_options.waitWorkers = false;
  c10d::TCPStore store("127.0.0.1", store_options);

  const TemporaryFolder folder;
  std::vector<pid_t> children;
  for (int rank = 0; rank < world_size; ++rank) {
    std::map<std::string, std::string> environment = options.environment;
    environment.insert({{kIsRank, "1"},
                        {"RANK", std::to_string(rank)},
                        {"WORLD_SIZE", std::to_string(world_size)},
                        {"LOCAL_WORLD_SIZE", std::to_string(world_size)},
                        {"MASTER_ADDR", "127.0.0.1"},
                        {"MASTER_PORT", std::to_string(store.getPort())},
                        {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
    children.push_back(start(environment, folder.path() / std::to_string(rank)));
  }
  const auto deadline =
      std::chrono::steady_clock::now() +
      std::chrono::milliseconds(static_cast<std::int64_t>(1000 * options.most_seconds));
  for (int rank = 0; rank < world_size; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    const std::optional<int> code = wait_for(children[index], deadline);
    const int expected = options.exit_codes.empty() ? 0 : options.exit_codes.at(index);
    const std::string said = read_bytes(folder.path() / std::to_string(rank));
    EXPECT_TRUE(code.has_value()) << "rank " << rank << " does not end:\n" << said;
    EXPECT_EQ(code.value_or(expected), expected) << "rank " << rank << ":\n" << said;
    if (expected == 0) {
      EXPECT_NE(said.find("[  PASSED  ] 1 test."), std::string::npos) << said;
    }
  }
  return true;
}

}  // namespace hydrascope::testing
