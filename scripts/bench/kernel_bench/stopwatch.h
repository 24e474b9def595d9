// Times of kernel calls by CUDA events, with L2 cold or warm, and the rate of a large copy.
#pragma once

#include "kernels/device/event.h"
#include "kernels/device/stream.h"
#include "scripts/bench/kernel_bench/device_memory.h"
#include "scripts/bench/kernel_bench/work.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace hydrascope::bench {

/// Microseconds of one call.
struct Times {
  double median = 0, p10 = 0, p90 = 0;
  int launches = 0;         ///< measured, behind those of the warm-up
  int runs_per_launch = 1;  ///< each launch is the mean of so many calls
};

/// Needs at least one sample; percentiles interpolate linearly between order statistics.
Times summarise(std::vector<double> microseconds);

class Stopwatch {
 public:
  /// `launches` are measured of everything.
  explicit Stopwatch(int launches);

  [[nodiscard]] kernels::device::Stream stream() const { return stream_.get(); }

  /// Before each call a buffer of twice L2's size is written and another is read, so that L2 holds
  /// nothing of the call's and nothing that has yet to be brought to memory. Calls of two kernels
  /// count the gap between them.
  Times cold(const Work& work);
  /// Calls follow each other inside a CUDA graph, as in the plan; what fits into L2 stays there.
  Times warm(const Work& work);
  /// Calls it `count` times and compares what it writes with the first call's on the device, bit by
  /// bit: how many 16-byte words differed, over all calls. Every twentieth call finds its output
  /// overwritten.
  std::uint64_t replay(const Work& work, int count);
  /// Device to device, 1 GiB; bytes read and bytes written count.
  Times copy();
  [[nodiscard]] static double copy_bytes();

 private:
  using Call = std::function<void()>;

  /// `before` and `timed` enqueue; until the medians of ten differ by less than 2 %, then
  /// `launches` of them.
  Times settled_times(const Call& before, const Call& timed);
  std::vector<double> sample(int count, const Call& before, const Call& timed);
  void flush();

  int launches_;
  std::shared_ptr<CUstream_st> stream_;
  std::deque<kernels::device::Event> begin_, end_;
  DeviceMemory<std::uint8_t> written_;
  DeviceMemory<std::uint8_t> read_;
  DeviceMemory<std::uint8_t> sink_;
};

}  // namespace hydrascope::bench
