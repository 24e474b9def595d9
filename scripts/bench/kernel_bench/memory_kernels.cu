// Reading a buffer, which leaves its lines clean in L2: behind a write alone, the next kernel would
// pay for bringing the written lines to memory. Comparing two of them.
#include "kernels/device/launch.cuh"
#include "kernels/device/vector_io.cuh"
#include "scripts/bench/kernel_bench/memory_kernels.h"

namespace hydrascope::bench {
namespace {

#ifndef __CUDACC__
/// The emulator's threads are one after the other.
void atomicAdd(unsigned long long* to, unsigned long long value) { *to += value; }
#endif

struct ReadParams {
  const std::uint32_t* from;
  std::size_t words;
  std::uint32_t* sink;
};

struct CompareParams {
  const std::uint32_t* expected;
  const std::uint32_t* found;
  std::size_t words;
  unsigned long long* different;
};

constexpr int kThreads = 256;
constexpr kernels::device::Geometry kGeometry{
    {sized(8 * kernels::device::kMultiprocessors, 2), 1, 1}, {kThreads, 1, 1}};

template <class Body>
__device__ void for_words(std::size_t words, Body body) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += step)
    body(i);
}

__global__ void __launch_bounds__(kThreads) read_kernel(const ReadParams p) {
  std::uint32_t sum = 0;
  for_words(p.words, [&](std::size_t i) {
    const auto four = kernels::device::load_words(p.from + 4 * i);
    sum += four.words[0] ^ four.words[1] ^ four.words[2] ^ four.words[3];
  });
  if (sum == 0x9e3779b9U) *p.sink = sum;
}

__global__ void __launch_bounds__(kThreads) compare_kernel(const CompareParams p) {
  unsigned long long different = 0;
  for_words(p.words, [&](std::size_t i) {
    const auto a = kernels::device::load_words(p.expected + 4 * i);
    const auto b = kernels::device::load_words(p.found + 4 * i);
    bool differs = false;
    for (int word = 0; word < 4; ++word) differs = differs || a.words[word] != b.words[word];
    different += differs;
  });
  if (different != 0) atomicAdd(p.different, different);
}

}  // namespace

void read_memory(const void* from, std::size_t words, std::uint32_t* sink,
                 kernels::device::Stream stream) {
  kernels::device::launch("read_kernel", read_kernel, kGeometry, stream,
                          {static_cast<const std::uint32_t*>(from), words, sink});
}

void compare_memory(const void* expected, const void* found, std::size_t words,
                    std::uint64_t* different, kernels::device::Stream stream) {
  static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
  kernels::device::launch(
      "compare_kernel", compare_kernel, kGeometry, stream,
      {static_cast<const std::uint32_t*>(expected), static_cast<const std::uint32_t*>(found), words,
       reinterpret_cast<unsigned long long*>(different)});
}

}  // namespace hydrascope::bench
