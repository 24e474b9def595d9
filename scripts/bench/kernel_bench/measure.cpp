#include "scripts/bench/kernel_bench/measure.h"

#include "kernels/device/graph.h"
#include "kernels/device/launch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <type_traits>

namespace hydrascope::bench {
namespace {

using kernels::BFloat16;
using kernels::device::check_cuda;
using kernels::device::Graph;

constexpr std::size_t kPeriod = 1'000'003;               // a prime
constexpr int kWindow = static_cast<int>(sized(10, 2));  // launches whose median is compared
constexpr std::size_t kCopied = sized(std::int64_t{1} << 30, 4096);
constexpr std::size_t kWord = 16;

template <class T>
const std::vector<T>& random_table() {
  static const std::vector<T> table = [] {
    std::mt19937 random(42);
    std::normal_distribution<float> normal;
    std::vector<T> values(kPeriod);
    for (T& value : values) {
      if constexpr (std::is_same_v<T, std::uint8_t>)
        value = static_cast<T>(random());
      else
        value = T(normal(random));
    }
    return values;
  }();
  return table;
}

void copy(void* to, const void* from, std::size_t bytes) {
  check_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
}
/// Copies on the device and cudaMemset return early, and streams that measure do not wait for them.
void finish() { check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

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

std::shared_ptr<void> device_memory(std::size_t bytes) {
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
  return {memory, cudaFree};
}

template <class T>
DeviceMemory<T> random_memory(std::size_t count) {
  DeviceMemory<T> memory(count);
  copy(memory.data(), random_table<T>().data(), std::min(kPeriod, count) * sizeof(T));
  for (std::size_t filled = kPeriod; filled < count; filled *= 2)
    copy(memory.data() + filled, memory.data(), std::min(filled, count - filled) * sizeof(T));
  finish();
  return memory;
}
template DeviceMemory<BFloat16> random_memory(std::size_t);
template DeviceMemory<std::uint8_t> random_memory(std::size_t);

DeviceMemory<std::uint8_t> zeroed_memory(std::size_t count) {
  DeviceMemory<std::uint8_t> memory(count);
  check_cuda(cudaMemset(memory.data(), 0, memory.bytes()), "cudaMemset");
  finish();
  return memory;
}

template <class T>
bool is_finite(const DeviceMemory<T>& memory) {
  constexpr std::size_t kChunk = std::size_t{1} << 24;
  std::vector<T> values;
  for (std::size_t begin = 0; begin < memory.size(); begin += kChunk) {
    values.resize(std::min(kChunk, memory.size() - begin));
    copy(values.data(), memory.data() + begin, values.size() * sizeof(T));
    if (!std::ranges::all_of(values,
                             [](T value) { return std::isfinite(static_cast<float>(value)); }))
      return false;
  }
  return true;
}
template bool is_finite(const DeviceMemory<float>&);
template bool is_finite(const DeviceMemory<BFloat16>&);

Stopwatch::Stopwatch(int launches)
    : launches_(launches),
      written_(flushed_bytes()),
      read_(random_memory<std::uint8_t>(flushed_bytes())),
      sink_(sizeof(std::uint32_t)) {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  stream_.reset(stream, cudaStreamDestroy);
  for (int i = 0; i < std::max(launches, kWindow); ++i)
    for (auto* events : {&begin_, &end_})  // made now: the first record makes an event
      events->emplace_back(kernels::device::Event::Timing::on).record(stream);
}

Times Stopwatch::sample(int count, const Call& before, const Call& timed) {
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
  std::ranges::sort(microseconds);
  return {percentile(microseconds, 0.5), percentile(microseconds, 0.1),
          percentile(microseconds, 0.9)};
}

Times Stopwatch::settled_times(const Call& before, const Call& timed) {
  constexpr int kMostWindows = 30;
  constexpr double kTolerance = 0.02;
  double previous = 0;
  for (int i = 0; i < kMostWindows; ++i) {
    const double median = sample(kWindow, before, timed).median;
    if (std::abs(median - previous) <= kTolerance * median) break;
    previous = median;
  }
  return sample(launches_, before, timed);
}

Times Stopwatch::cold(const Work& work) {
  const auto flush = [&] {
    check_cuda(cudaMemsetAsync(written_.data(), 0x5a, written_.bytes(), stream()),
               "cudaMemsetAsync");
    read_memory(read_.data(), read_.bytes() / kWord, reinterpret_cast<std::uint32_t*>(sink_.data()),
                stream());
  };
  return settled_times(flush, [&] { work.run(stream()); });
}

std::uint64_t Stopwatch::replay(const Work& work, int count) {
  constexpr int kCallsOfGraph = 20;
  work.run(stream());
  std::vector<DeviceMemory<std::uint8_t>> first;
  for (const Work::Written& written : work.written) {
    first.emplace_back(written.bytes);
    check_cuda(cudaMemcpyAsync(first.back().data(), written.data, written.bytes,
                               cudaMemcpyDeviceToDevice, stream()),
               "cudaMemcpyAsync");
  }
  std::uint64_t result = 0;
  const auto different = zeroed_memory(sizeof result);
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
  const auto from = random_memory<std::uint8_t>(kCopied);
  const DeviceMemory<std::uint8_t> to(kCopied);
  return settled_times([] {},
                       [&] {
                         check_cuda(cudaMemcpyAsync(to.data(), from.data(), kCopied,
                                                    cudaMemcpyDeviceToDevice, stream()),
                                    "cudaMemcpyAsync");
                       });
}

}  // namespace hydrascope::bench
