// Commands as torchrun starts them: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the
// environment.
#pragma once

#include "tests/app/cli/program.h"
#include "tests/free_port.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hydrascope::testing {

inline std::map<std::string, std::string> rank_environment(int rank, int world_size, int port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(world_size)},
          {"LOCAL_WORLD_SIZE", std::to_string(world_size)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)}};
}

/// The output of each rank's process.
inline std::vector<Outcome> run_ranks(int world_size, const Words& arguments,
                                      const std::filesystem::path& working_directory) {
  const int port = free_port();
  std::vector<std::unique_ptr<Program>> programs;
  for (int rank = 0; rank < world_size; ++rank) {
    programs.push_back(std::make_unique<Program>(
        arguments, RunOptions{.working_directory = working_directory,
                              .environment = rank_environment(rank, world_size, port)}));
  }
  std::vector<Outcome> outcomes;
  for (const auto& program : programs) outcomes.push_back(program->wait());
  return outcomes;
}

}  // namespace hydrascope::testing
