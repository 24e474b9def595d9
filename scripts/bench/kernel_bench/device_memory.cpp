#include "scripts/bench/kernel_bench/device_memory.h"

#include "kernels/device/launch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <type_traits>
#include <vector>

namespace hydrascope::bench {
namespace {

using kernels::BFloat16;
using kernels::device::check_cuda;

constexpr std::size_t kPeriod = 1'000'003;  // a prime

template <class T>
const std::vector<T>& random_table() {
  static const std::vector<T> table = [] {
    std::mt19937 random(42);
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> byte(0, 255);
    std::vector<T> values(kPeriod);
    for (T& value : values) {
      if constexpr (std::is_same_v<T, std::uint8_t>) {
        value = static_cast<T>(byte(random));
      } else {
        value = T(normal(random));
      }
    }
    return values;
  }();
  return table;
}

/// Copies on the device and cudaMemset return early, and streams that measure do not wait for them.
void finish() { check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

template <class T>
bool all_finite(const std::vector<T>& values) {
  return std::ranges::all_of(values, [](T value) {
    if constexpr (std::is_same_v<T, std::uint8_t>)
      return true;
    else
      return std::isfinite(static_cast<float>(value));
  });
}

}  // namespace

std::shared_ptr<void> device_memory(std::size_t bytes) {
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
  return {memory, cudaFree};
}

template <class T>
DeviceMemory<T> random_memory(std::size_t count, unsigned seed) {
  DeviceMemory<T> memory(count);
  const std::vector<T>& table = random_table<T>();
  const std::size_t start = seed * 7919UL % kPeriod;
  const auto copy = [&](std::size_t to, const T* from, std::size_t elements) {
    elements = std::min(elements, count - std::min(to, count));
    check_cuda(cudaMemcpy(memory.data() + to, from, elements * sizeof(T), cudaMemcpyDefault),
               "cudaMemcpy");
  };
  copy(0, table.data() + start, kPeriod - start);
  copy(kPeriod - start, table.data(), start);
  for (std::size_t filled = kPeriod; filled < count; filled *= 2)
    copy(filled, memory.data(), filled);
  finish();
  return memory;
}

template <class T>
DeviceMemory<T> zeroed_memory(std::size_t count) {
  DeviceMemory<T> memory(count);
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
    check_cuda(cudaMemcpy(values.data(), memory.data() + begin, values.size() * sizeof(T),
                          cudaMemcpyDefault),
               "cudaMemcpy");
    if (!all_finite(values)) return false;
  }
  return true;
}

#define HYDRASCOPE_INSTANTIATE(T)                                \
  template DeviceMemory<T> random_memory(std::size_t, unsigned); \
  template DeviceMemory<T> zeroed_memory(std::size_t);           \
  template bool is_finite(const DeviceMemory<T>&);
HYDRASCOPE_INSTANTIATE(float)
HYDRASCOPE_INSTANTIATE(BFloat16)
HYDRASCOPE_INSTANTIATE(std::uint8_t)
#undef HYDRASCOPE_INSTANTIATE

}  // namespace hydrascope::bench
