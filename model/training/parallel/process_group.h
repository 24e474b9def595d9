// The processes of one training run: its members and the collective operations that it needs.
// Started by `torchrun --no-python`, or by any shell loop that sets RANK, WORLD_SIZE, MASTER_ADDR
// and MASTER_PORT.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace hydrascope::model::training {

/// Tensors of all ranks must agree in number, shape, dtype and order, and all ranks must call the
/// same functions in the same order. Every function may throw Error(failed) when a rank is gone or
/// does not come in time; the group is useless afterwards.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int world_size() const noexcept = 0;
  /// Rank 0's values replace everybody's.
  virtual void broadcast(const std::vector<at::Tensor>& tensors) = 0;
  /// Sums over the ranks, in place.
  virtual void sum(const std::vector<at::Tensor>& tensors) = 0;
  virtual void barrier() = 0;

  [[nodiscard]] bool is_first() const noexcept { return rank() == 0; }
};

/// Rank 0's number, on all ranks.
std::int64_t number_of_first(ProcessGroup& group, std::int64_t mine);

/// The sum of all ranks' numbers, on all of them.
std::int64_t sum_of_all(ProcessGroup& group, std::int64_t mine);

/// One process: nothing to exchange.
std::unique_ptr<ProcessGroup> make_single_process();

struct JoinOptions {
  /// How long a rank waits for the others to join, and for them in each operation afterwards. A
  /// dead rank is noticed at once; the limits are for ranks that hang or never come.
  std::chrono::milliseconds join_timeout = std::chrono::minutes(10);
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Asked now and then while a joining rank waits for others; true gives up.
  std::function<bool()> interrupted = {};
};

/// The group that the environment describes (launch_environment.h), once all its ranks are there;
/// the single process without a description. Tensors are exchanged over Gloo, on the CPU. Throws
/// Error(invalid_argument) naming the variable that is wrong, and for several processes whose
/// `device` is a GPU; Error(failed) when others do not come.
std::unique_ptr<ProcessGroup> join_process_group(c10::Device device,
                                                 const JoinOptions& options = {});

}  // namespace hydrascope::model::training
