// What kernel_bench prints.
#pragma once

#include "tests/bench/kernel_bench/stopwatch.h"
#include "tests/bench/kernel_bench/work.h"

#include <iosfwd>
#include <string>

namespace hydrascope::bench {

enum class Format { jsonl, md };

/// Writes rows as they come; shares are of the copy that was written first.
class RowWriter {
 public:
  /// Begins with what the current device is.
  RowWriter(Format format, std::ostream& out);
  /// `cache` is "cold" or "warm"; `finite` whether the output is.
  void write(const Case& each, const std::string& cache, const Times& times, bool finite);
  /// A row without times, and why.
  void write_failure(const Case& each, const std::string& why);

 private:
  Format format_;
  std::ostream& out_;
  double copy_gb_per_s_ = 0;
};

}  // namespace hydrascope::bench
