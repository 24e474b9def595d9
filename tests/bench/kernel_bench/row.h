// The output of kernel_bench: a JSON object a line.
#pragma once

#include "tests/bench/kernel_bench/stopwatch.h"
#include "tests/bench/kernel_bench/work.h"

#include <cstdint>
#include <iosfwd>
#include <string>

namespace hydrascope::bench {

/// Writes rows as they come; shares are of the copy that was written first.
class RowWriter {
 public:
  /// Begins with what the current device is.
  explicit RowWriter(std::ostream& out);
  /// `cache` is "cold" or "warm"; `finite` whether the output is; `note` as Work's.
  void write(const Case& each, const std::string& cache, const Times& times, bool finite,
             const std::string& note = "");
  /// `different` words of 16 bytes in all of the calls.
  void write_replays(const Case& each, int calls, std::uint64_t different);
  /// A row without times, and why.
  void write_failure(const Case& each, const std::string& why);

 private:
  std::ostream& out_;
  double copy_gb_per_s_ = 0;
};

}  // namespace hydrascope::bench
