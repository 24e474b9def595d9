// The ranks of a run find each other in c10d's TCPStore, which torchrun or rank 0 serves. Later the
// store tells which ranks are missing when an operation fails.
#pragma once

#include "model/training/parallel/launch_environment.h"
#include "model/training/parallel/process_group.h"

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace hydrascope::model::training {

class Rendezvous {
 public:
  /// Returns when all ranks are there. Throws Error(failed) when they do not come in time.
  Rendezvous(LaunchEnvironment launch, const JoinOptions& options);

  [[nodiscard]] const LaunchEnvironment& launch() const noexcept { return launch_; }
  /// How long an operation may take.
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept { return timeout_; }
  /// The store for a backend, below keys of this run and of this group.
  [[nodiscard]] const c10::intrusive_ptr<c10d::Store>& store() const noexcept { return store_; }

  /// Throws Error(failed) for `operation` ("a sum"), which failed by `cause`, and names the ranks
  /// that give no sign of life. They have a moment to give one.
  [[noreturn]] void fail(const std::string& operation, const std::string& cause);

 private:
  void connect(const JoinOptions& options);
  void wait_for_all(const JoinOptions& options);
  [[nodiscard]] std::string key(const std::string& what, int rank) const;
  /// Ranks that have not set their key `what`.
  [[nodiscard]] std::vector<int> without(const std::string& what) const;

  LaunchEnvironment launch_;
  std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;
};

/// Processes that exchange tensors over Gloo, on the CPU.
std::unique_ptr<ProcessGroup> make_gloo_group(std::unique_ptr<Rendezvous> rendezvous);

/// An exception's message in one line, LibTorch's without the stack.
std::string plain_message(const std::exception& error);

}  // namespace hydrascope::model::training
