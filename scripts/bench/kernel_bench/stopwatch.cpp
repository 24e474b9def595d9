#include "scripts/bench/kernel_bench/stopwatch.h"

#include "kernels/device/graph.h"
#include "kernels/device/launch.h"
#include "scripts/bench/kernel_bench/memory_kernels.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>

namespace hydrascope::bench {
namespace {

using kernels::device::check_cuda;
using kernels::device::Graph;

constexpr int kWindow = static_cast<int>(sized(10, 2));  // launches whose median is compared
constexpr std::size_t kCopied = sized(std::int64_t{1} << 30, 4096);

std::size_t flushed_bytes() {
  int device = 0;
  int l2 = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device), "size of L2");
  return std::max<std::size_t>(2 * static_cast<std::size_t>(l2), sized(32 << 20, 4096));
}

double percentile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

}  // namespace

Times summarise(std::vector<double> microseconds) {
  std::ranges::sort(microseconds);
  Times times;
  times.median = percentile(microseconds, 0.5);
  times.p10 = percentile(microseconds, 0.1);
  times.p90 = percentile(microseconds, 0.9);
  times.launches = static_cast<int>(microseconds.size());
  return times;
}

Stopwatch::Stopwatch(int launches)
    : launches_(launches),
      written_(flushed_bytes()),
      read_(random_memory<std::uint8_t>(flushed_bytes(), 1)),
      sink_(sizeof(std::uint32_t)) {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  stream_.reset(stream, cudaStreamDestroy);
  for (int i = 0; i < std::max(launches, kWindow); ++i)
    for (auto* events : {&begin_, &end_})  // made now: the first record makes an event
      events->emplace_back(kernels::device::Event::Timing::on).record(stream);
}

void Stopwatch::flush() {
  check_cuda(cudaMemsetAsync(written_.data(), 0x5a, written_.bytes(), stream()), "cudaMemsetAsync");
  constexpr std::size_t kWord = 16;
  read_memory(read_.data(), read_.bytes() / kWord, reinterpret_cast<std::uint32_t*>(sink_.data()),
              stream());
}

std::vector<double> Stopwatch::sample(int count, const Call& before, const Call& timed) {
  for (int i = 0; i < count; ++i) {
    before();
    begin_[i].record(stream());
    timed();
    end_[i].record(stream());
  }
  check_cuda(cudaStreamSynchronize(stream()), "measured kernels");
  std::vector<double> microseconds;
  for (int i = 0; i < count; ++i)
    microseconds.push_back(1e3 * static_cast<double>(end_[i].milliseconds_since(begin_[i])));
  return microseconds;
}

Times Stopwatch::settled_times(const Call& before, const Call& timed) {
  constexpr int kMostWindows = 30;
  constexpr double kTolerance = 0.02;
  double previous = 0;
  for (int i = 0; i < kMostWindows; ++i) {
    const double median = summarise(sample(kWindow, before, timed)).median;
    if (std::abs(median - previous) <= kTolerance * median) break;
    previous = median;
  }
  return summarise(sample(launches_, before, timed));
}

Times Stopwatch::cold(const Work& work) {
  return settled_times([&] { flush(); }, [&] { work.run(stream()); });
}

Times Stopwatch::warm(const Work& work) {
  constexpr double kLaunch = 300;  // microseconds, beside which the launch of a graph is little
  constexpr int kMostRuns = static_cast<int>(sized(20, 2));
  const double once = summarise(sample(
                                    kWindow, [] {}, [&] { work.run(stream()); }))
                          .median;
  const int runs = std::clamp(static_cast<int>(std::ceil(kLaunch / once)), 1, kMostRuns);
  const Graph graph(stream(), [&] {
    for (int i = 0; i < runs; ++i) work.run(stream());
  });
  Times times = settled_times([] {}, [&] { graph.launch(); });
  times.median /= runs;
  times.p10 /= runs;
  times.p90 /= runs;
  times.runs_per_launch = runs;
  return times;
}

std::uint64_t Stopwatch::replay(const Work& work, int count) {
  constexpr int kCallsOfGraph = 20;
  constexpr std::size_t kWord = 16;
  work.run(stream());
  std::vector<DeviceMemory<std::uint8_t>> first;
  for (const Work::Written& written : work.written) {
    first.emplace_back(written.bytes);
    check_cuda(cudaMemcpyAsync(first.back().data(), written.data, written.bytes,
                               cudaMemcpyDeviceToDevice, stream()),
               "cudaMemcpyAsync");
  }
  std::uint64_t result = 0;
  const auto different = zeroed_memory<std::uint8_t>(sizeof result);
  const auto compare = [&] {
    for (std::size_t i = 0; i < first.size(); ++i)
      compare_memory(first[i].data(), work.written[i].data, first[i].bytes() / kWord,
                     reinterpret_cast<std::uint64_t*>(different.data()), stream());
  };
  compare();  // loads the kernel, which a capture may forbid
  const Graph graph(stream(), [&] {
    for (const Work::Written& written : work.written)
      check_cuda(cudaMemsetAsync(written.data, 0xff, written.bytes, stream()), "cudaMemsetAsync");
    for (int call = 0; call < kCallsOfGraph; ++call) {
      work.run(stream());
      compare();
    }
  });
  for (int calls = 0; calls < count; calls += kCallsOfGraph) graph.launch();
  check_cuda(
      cudaMemcpyAsync(&result, different.data(), sizeof result, cudaMemcpyDeviceToHost, stream()),
      "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(stream()), "replays");
  return result;
}

double Stopwatch::copy_bytes() { return 2.0 * static_cast<double>(kCopied); }

Times Stopwatch::copy() {
  const auto from = random_memory<std::uint8_t>(kCopied, 2);
  const DeviceMemory<std::uint8_t> to(kCopied);
  return settled_times([] {},
                       [&] {
                         check_cuda(cudaMemcpyAsync(to.data(), from.data(), kCopied,
                                                    cudaMemcpyDeviceToDevice, stream()),
                                    "cudaMemcpyAsync");
                       });
}

}  // namespace hydrascope::bench
