// Several processes on this machine that the program starts itself (`--processes`): what torchrun
// does there, without it.
#pragma once

#include <sys/types.h>
#include <vector>

namespace hydrascope::app {

class LocalRanks {
 public:
  /// This process becomes rank 0 of `count`, by the variables that `read_launch_environment` reads;
  /// the program is started again with the same words as the other ranks, which end when this
  /// process does. Nothing happens for a count of 1. Call it before there are threads. Throws
  /// Error(failed).
  explicit LocalRanks(int count);
  LocalRanks(const LocalRanks&) = delete;
  LocalRanks& operator=(const LocalRanks&) = delete;
  /// Ends those that still run.
  ~LocalRanks();

  /// Waits for them to end. The run's exit code: `code`, or where it is 0 that of a rank that
  /// ended otherwise.
  int wait(int code);

  /// Throws Error(failed) naming a rank that a LocalRanks of this process started and that has
  /// ended: the others would wait for it.
  static void require_all_running();

  /// Is this one of the ranks that a LocalRanks started? What is wrong with the command line rank 0
  /// says, too.
  static bool started_this_process() noexcept;

 private:
  std::vector<pid_t> running_;
};

}  // namespace hydrascope::app
