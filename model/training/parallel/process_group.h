// The processes of one training run: its members and the collective operations that it needs.
// Started by `--processes`, by `torchrun --no-python`, or by any shell loop that sets RANK, WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT.
#pragma once

#include "model/training/parallel/launch_environment.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace hydrascope::model::training {

/// Tensors of all ranks must agree in number, shape, dtype and order, and all ranks must call the
/// same functions in the same order. They are exchanged over Gloo, on the CPU. Every function may throw
/// Error(failed) when a rank is gone or does not come within ten minutes; the group is useless
/// afterwards.
class ProcessGroup {
 public:
  /// One process: nothing to exchange.
  ProcessGroup();
  /// All processes of `launch`, once they are there. `interrupted` is asked now and then while others
  /// are waited for; true gives up.
  ProcessGroup(const LaunchEnvironment& launch, const std::function<bool()>& interrupted);
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
  ~ProcessGroup();

  [[nodiscard]] int rank() const noexcept { return launch_.rank; }
  [[nodiscard]] int world_size() const noexcept { return launch_.world_size; }
  [[nodiscard]] bool is_first() const noexcept { return launch_.is_first(); }

  /// Rank 0's values replace everybody's.
  void broadcast(const std::vector<at::Tensor>& tensors);
  /// Sums over the ranks, in place.
  void sum(const std::vector<at::Tensor>& tensors);
  void barrier();

 private:
  struct Backend;

  LaunchEnvironment launch_;
  std::unique_ptr<Backend> backend_;  ///< null for one process
};

/// Throws Stopped once a signal asks for the end. One of several processes goes on, as the others wait for it.
void end_if_stopped(const ProcessGroup& group);
/// Rank 0's number, on all ranks.
std::int64_t number_of_first(ProcessGroup& group, std::int64_t mine);

/// The sum of all ranks' numbers, on all of them.
std::int64_t sum_of_all(ProcessGroup& group, std::int64_t mine);

/// The group that the environment describes (launch_environment.h), the single process without a
/// description. Throws Error(invalid_argument) naming the variable that is wrong, and for several
/// processes whose `device` is a GPU; Error(failed) when others do not come.
std::unique_ptr<ProcessGroup> join_process_group(c10::Device device,
                                                 const std::function<bool()>& interrupted = {});

}  // namespace hydrascope::model::training
