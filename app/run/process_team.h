// The processes that share the inputs of one command under torchrun: every one takes every
// WORLD_SIZE-th. Alone it takes all, and nothing here does anything.
#pragma once

#include "app/results/npy_file.h"
#include "model/training/parallel/launch_environment.h"
#include "model/training/parallel/process_group.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrascope::app {

/// `timeout` in seconds for joining and for each operation; a signal gives up waiting.
model::training::JoinOptions join_options(double timeout);

class ProcessTeam {
 public:
  /// Reads the environment. Throws Error(invalid_argument) naming the variable that is wrong.
  ProcessTeam();

  [[nodiscard]] const model::training::LaunchEnvironment& launch() const noexcept {
    return launch_;
  }
  [[nodiscard]] bool is_first() const noexcept { return launch_.is_first(); }
  [[nodiscard]] bool has_others() const noexcept { return launch_.has_others(); }

  /// Throws Error(invalid_argument) with `subject`, which is for one process alone, among several.
  void refuse(const std::string& subject) const;

  /// Waits until all are there, `timeout` seconds at most. Afterwards they wait for each other
  /// without end, because shares take different times; one that dies is an error at once. Throws
  /// Error(failed).
  void join(double timeout);

  /// Is input `number` (from 0, of all) this process's?
  [[nodiscard]] bool takes(std::int64_t number) const noexcept {
    return number % launch_.world_size == launch_.rank;
  }
  /// "records.jsonl" -> "records.rank1.jsonl"; "" and "-" stay, and so does every name of a single
  /// process.
  [[nodiscard]] std::string own_file(const std::string& file) const;

  // What all must call alike, in the same order. Throw Error(failed) when one is gone.
  /// In place, over all processes.
  void sum(std::initializer_list<std::int64_t*> counts);
  void sum(const at::Tensor& values);
  /// Everybody's value, by rank.
  [[nodiscard]] std::vector<double> gather(double value);
  /// torchrun ends all when the first one ends with an exit code; this waits until all are done.
  void wait_for_all();

 private:
  model::training::LaunchEnvironment launch_;
  std::unique_ptr<model::training::ProcessGroup> group_;
};

// `--save-logits` of a set that several processes share: one array, rows in the order of the set.

/// One process writes rows as they come. Of several each keeps those of its own inputs until
/// `close`, when the first one gets them in pieces and writes them.
class LogitsFile {
 public:
  /// Throws Error(unwritable) as NpyWriter does.
  LogitsFile(ProcessTeam& team, const std::filesystem::path& file, std::int64_t num_classes);

  /// Writes the logits of this process's next input: (num_classes) float32.
  void append(const at::Tensor& logits);
  /// Writes the row of an input that failed.
  void append_nan();
  /// All processes must call it. Where one of them ended early, the rows end at the first input
  /// that is missing.
  void close();

 private:
  void exchange();

  ProcessTeam& team_;
  std::int64_t num_classes_;
  std::optional<NpyWriter> writer_;  ///< of the first process
  std::vector<float> kept_;          ///< rows of this process, among several
};

}  // namespace hydrascope::app
