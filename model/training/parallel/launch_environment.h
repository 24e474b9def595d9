// The environment variables by which `torchrun` (or a shell loop) describes a process of a run.
#pragma once

#include <cstdint>
#include <string>

namespace hydrascope::model::training {

struct LaunchEnvironment {
  int rank = 0;                   ///< RANK
  int world_size = 1;             ///< WORLD_SIZE
  int local_world_size = 1;       ///< LOCAL_WORLD_SIZE, 1 without it
  std::string master_addr;        ///< MASTER_ADDR
  std::uint16_t master_port = 0;  ///< MASTER_PORT
  /// TORCHELASTIC_USE_AGENT_STORE: torchrun serves the store at that address; else rank 0 does.
  bool agent_store = false;
  std::string restart_count = "0";  ///< TORCHELASTIC_RESTART_COUNT: keys of earlier attempts stay

  [[nodiscard]] bool is_first() const noexcept { return rank == 0; }
  [[nodiscard]] bool has_others() const noexcept { return world_size > 1; }
};

/// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are all there or all missing; with WORLD_SIZE=1
/// the others do not matter. Throws Error(invalid_argument) with the variable as its subject.
LaunchEnvironment read_launch_environment();

}  // namespace hydrascope::model::training
