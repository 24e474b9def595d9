// The processes of one training run: who takes part, and the collective operations it needs.
// Started by `torchrun --no-python`, or by any shell loop that sets RANK, WORLD_SIZE, MASTER_ADDR
// and MASTER_PORT.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::model::training {

/// Tensors of all ranks must agree in number, shape, dtype and order. Every function may throw
/// Error(failed) when a rank is gone.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int world_size() const noexcept = 0;
  /// Rank 0's values replace everybody's.
  virtual void broadcast(const std::vector<at::Tensor>& tensors) = 0;
  /// Sums over the ranks, in place.
  virtual void sum(const std::vector<at::Tensor>& tensors) = 0;
  /// Starts a sum; the result is there when the handle's `wait` returns.
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual void wait() = 0;
  };
  virtual std::unique_ptr<Pending> start_sum(const at::Tensor& tensor) = 0;
  virtual void barrier() = 0;

  [[nodiscard]] bool is_first() const noexcept { return rank() == 0; }
};

/// One process: nothing to exchange.
std::unique_ptr<ProcessGroup> make_single_process();

}  // namespace hydrascope::model::training
