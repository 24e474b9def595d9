// How the program ends.
#pragma once

namespace hydrascope::app {

/// Exit codes of the program (besides 128 + signal).
enum ExitCode : int {
  kExitOk = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitSomeInputsFailed = 3,
  kExitCheckFailed = 4,
};

}  // namespace hydrascope::app
