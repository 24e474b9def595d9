// The numbers of a training run as files: summary.csv, metrics.jsonl and TensorBoard's events.
#pragma once

#include "model/training/log/event_file.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace hydrascope::model::training {

struct MetricRecord {
  std::int64_t step = 0;  ///< updates done
  std::int64_t epoch = 0;
  Scalars values;  ///< "loss", "eval/top1", ...; no commas, quotes, line breaks in names
};

/// In one folder, which is made. What a record says is in the files when the call returns; numbers
/// that are not finite are null in JSON. Throws Error(failed) when a file cannot be written and
/// Error(internal) for names that the files cannot hold.
class MetricLog {
 public:
  /// Appends to what the folder's files hold up to step `resumed_step` (-1: nothing) and drops the
  /// rest, so that a resumed run leaves each record once.
  explicit MetricLog(const std::filesystem::path& folder, std::int64_t resumed_step = -1);

  /// One line of metrics.jsonl and one event.
  void add(const MetricRecord& record);
  /// The same, and a row of summary.csv: epoch, step, and the numbers whose names the file's first
  /// row had.
  void add_epoch(const MetricRecord& record);

 private:
  std::filesystem::path folder_;
  std::vector<std::string> columns_;  ///< of summary.csv, after epoch and step
  std::ofstream summary_;
  std::ofstream lines_;
  EventFile events_;
};

}  // namespace hydrascope::model::training
