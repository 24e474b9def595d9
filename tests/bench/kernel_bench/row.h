// What kernel_bench prints.
#pragma once

#include "tests/bench/kernel_bench/stopwatch.h"
#include "tests/bench/kernel_bench/work.h"

#include <iosfwd>
#include <string>

namespace hydrascope::bench {

struct Device {
  std::string name;
  int major = 0;
  int minor = 0;
  int multiprocessors = 0;
  double clock_mhz = 0;
  double memory_clock_mhz = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  std::string driver;
  std::string runtime;
};
/// Of the current device.
Device current_device();

struct Row {
  std::string kernel;
  std::string shape;
  std::string type;
  std::string cache;  ///< "cold" or "warm"
  double bytes = 0;
  double flops = 0;
  Times times;
  bool finite = false;
  std::string error;  ///< why there are no times; empty where there are
};

enum class Format { jsonl, md };

/// Writes rows as they come; shares are of the copy that was written first.
class RowWriter {
 public:
  RowWriter(Format format, std::ostream& out, const Device& device);
  void write(const Row& row);

 private:
  Format format_;
  std::ostream& out_;
  double copy_gb_per_s_ = 0;
};

}  // namespace hydrascope::bench
