// `--save-logits` of a set that several processes share: one array, rows in the order of the set.
#pragma once

#include "app/results/npy_file.h"
#include "app/run/process_team.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace hydrascope::app {

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
