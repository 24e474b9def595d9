// Kernel calls to measure, their memory on the current GPU, and their times by CUDA events.
#pragma once

#include "kernels/device/event.h"
#include "kernels/device/stream.h"
#include "kernels/vector/scalar_types.h"
#include "scripts/bench/kernel_bench/memory_kernels.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hydrascope::bench {

/// `bytes` on the current device, undefined at first; 256-byte aligned.
std::shared_ptr<void> device_memory(std::size_t bytes);

/// `count` elements of T on the current device; copies share them.
template <class T>
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t count)
      : memory_(device_memory(count * sizeof(T))), count_(count) {}

  [[nodiscard]] T* data() const { return static_cast<T*>(memory_.get()); }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(T); }

 private:
  std::shared_ptr<void> memory_;
  std::size_t count_;
};

/// Normally distributed (uint8: uniform) numbers: zeros would run faster. They repeat after about a
/// million elements, at no distance that a row or a cache divides.
template <class T>
DeviceMemory<T> random_memory(std::size_t count);
DeviceMemory<std::uint8_t> zeroed_memory(std::size_t count);
/// Whether no element is NaN or infinite; waits for the device.
template <class T>
bool is_finite(const DeviceMemory<T>& memory);

/// Memory and arguments of one call.
struct Work {
  std::function<void(kernels::device::Stream)> run;
  /// Whether what `run` wrote is finite.
  std::function<bool()> finite;
  /// The memory that `run` writes, whole 16-byte words; empty for calls that are not replayed.
  struct Written {
    void* data;
    std::size_t bytes;
  };
  std::vector<Written> written = {};
};

struct Case {
  std::string kernel;  ///< "hydra forward"
  std::string shape;   ///< "B 8, N 8161, D 768"
  std::string type;    ///< what tensors are stored in
  double bytes;        ///< each input read once, each output written once
  double flops;        ///< 2 a multiply-add
  std::function<Work()> prepare;
};
std::vector<Case> all_cases();

/// Microseconds of one call.
struct Times {
  double median = 0, p10 = 0, p90 = 0;
};

class Stopwatch {
 public:
  /// `launches` are measured of everything.
  explicit Stopwatch(int launches);

  /// Before each call a buffer of twice L2's size is written and another is read, so that L2 holds
  /// nothing of the call's and nothing that has yet to be brought to memory. Calls of two kernels
  /// count the gap between them.
  Times cold(const Work& work);
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
  Times sample(int count, const Call& before, const Call& timed);
  [[nodiscard]] kernels::device::Stream stream() const { return stream_.get(); }

  int launches_;
  std::shared_ptr<CUstream_st> stream_;
  std::deque<kernels::device::Event> begin_, end_;
  DeviceMemory<std::uint8_t> written_;
  DeviceMemory<std::uint8_t> read_;
  DeviceMemory<std::uint8_t> sink_;
};

}  // namespace hydrascope::bench
