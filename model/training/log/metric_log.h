// The numbers of a training run as a file: metrics.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::model::training {

/// Named numbers of one moment of a run.
using Scalars = std::vector<std::pair<std::string, double>>;

struct MetricRecord {
  std::int64_t step = 0;  ///< updates done
  std::int64_t epoch = 0;
  Scalars values;  ///< "loss", "eval_top1", ...
};

/// `metrics.jsonl` in a folder, which is made: one line a record, {"step":10,"epoch":0,"loss":0.5}.
/// Numbers that are not finite are null. Throws Error(unwritable) when the file cannot be written.
class MetricLog {
 public:
  /// Appends to the file's lines up to step `resumed_step` (-1: none) and drops the rest, also an
  /// incomplete line, so that a resumed run leaves each record once.
  explicit MetricLog(const std::filesystem::path& folder, std::int64_t resumed_step = -1);

  /// The record is in the file when the call returns.
  void add(const MetricRecord& record);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace hydrascope::model::training
