// A test that runs as several processes.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace hydrascope::testing {

struct RankOptions {
  std::vector<int> exit_codes = {};  ///< expected, by rank; default: 0
  std::map<std::string, std::string> environment = {};
  double most_seconds = 20;  ///< ranks that run longer are killed, which fails the test
};

/// The first statement of such a test: `if (run_as_ranks(2)) return;`. In the test itself it starts
/// so many processes of this very test, expects their exit codes and returns true; in those it
/// returns false. They find each other by a store that the test serves, on a port of the system's
/// choice.
bool run_as_ranks(int world_size, const RankOptions& options = {});

}  // namespace hydrascope::testing
