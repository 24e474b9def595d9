#include "app/benchmark/measure.h"

#include "app/benchmark/statistics.h"
#include "app/signal_stop.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

namespace hydrascope::app {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double timed(const std::function<void()>& once) {
  const Clock::time_point begin = Clock::now();
  once();
  return seconds_since(begin) * 1e3;
}

/// VmHWM, the largest resident size since the mark was last cleared.
std::int64_t resident_peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    constexpr std::string_view kField = "VmHWM:";
    if (line.starts_with(kField)) return std::stoll(line.substr(kField.size())) * 1024;
  }
  return 0;
}

void clear_resident_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << 5;  // proc(5): resets the peak of the resident set to what is resident now
}

}  // namespace

Timings measure(const std::function<void()>& once, const MeasureOptions& options,
                const c10::Device& device) {
  Timings timings;
  std::vector<double> before;
  const Clock::time_point warm_begin = Clock::now();
  constexpr double kLongestWarmup = 10;
  constexpr std::size_t kMostWarmups = 20;
  while (!stop_requested()) {
    if (options.warmup >= 0) {
      if (static_cast<std::int64_t>(before.size()) >= options.warmup) break;
    } else if (settled(before) || before.size() >= kMostWarmups ||
               (!before.empty() && seconds_since(warm_begin) > kLongestWarmup)) {
      break;
    }
    before.push_back(timed(once));
  }
  timings.warmup = static_cast<std::int64_t>(before.size());
  if (device.is_cuda()) {
    c10::getDeviceAllocator(device.type())->resetPeakStats(device.index());
  } else {
    clear_resident_peak();
  }
  const Clock::time_point begin = Clock::now();
  constexpr std::size_t kFewest = 5;
  while (!stop_requested()) {
    const std::size_t done = timings.milliseconds.size();
    if (options.iterations > 0 ? static_cast<std::int64_t>(done) >= options.iterations
                               : done >= kFewest && seconds_since(begin) >= options.duration)
      break;
    timings.milliseconds.push_back(timed(once));
  }
  if (device.is_cuda()) {
    const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
    timings.peak_memory_bytes = stats.allocated_bytes[0].peak;
  } else {
    timings.peak_memory_bytes = resident_peak_bytes();
  }
  return timings;
}

double measured_peak_tflops(const c10::Device& device, const model::Precision& precision) {
  constexpr std::int64_t kRows = 4096;
  constexpr std::int64_t kInner = 768;
  constexpr std::int64_t kColumns = 3072;
  const auto type = at::TensorOptions().device(device).dtype(at::kFloat);
  const at::Tensor a = at::randn({kRows, kInner}, type).to(precision.dtype);
  const at::Tensor b = at::randn({kInner, kColumns}, type).to(precision.dtype);
  at::Tensor c = at::empty({kRows, kColumns}, a.options());
  double best = 1e30;
  constexpr int kRounds = 8;
  // On a GPU a product takes microseconds: several a round, and the copy of one number waits for
  // them.
  const int products = device.is_cuda() ? 100 : 1;
  for (int round = 0; round < kRounds; ++round) {
    best = std::min(best, timed([&] {
                      for (int i = 0; i < products; ++i) at::mm_out(c, a, b);
                      c.flatten()[0].item();
                    }));
  }
  return 2.0 * kRows * kInner * kColumns * products / (best * 1e-3) / 1e12;
}

}  // namespace hydrascope::app
