// Reading a buffer, which leaves its lines clean in L2: behind a write alone, the next kernel would
// pay for bringing the written lines to memory.
#include "kernels/device/launch.cuh"
#include "tests/bench/kernel_bench/read_memory.h"

namespace hydrascope::bench {
namespace {

struct ReadParams {
  const uint4* from;
  std::size_t words;
  std::uint32_t* sink;
};

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) read_kernel(const ReadParams p) {
  std::uint32_t sum = 0;
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < p.words; i += step) {
    const uint4 word = p.from[i];
    sum += word.x ^ word.y ^ word.z ^ word.w;
  }
  if (sum == 0x9e3779b9U) *p.sink = sum;
}

}  // namespace

void read_memory(const void* from, std::size_t words, std::uint32_t* sink,
                 kernels::device::Stream stream) {
  const kernels::device::Geometry geometry{{8 * kernels::device::kMultiprocessors, 1, 1},
                                           {kThreads, 1, 1}};
  kernels::device::launch("read_kernel", read_kernel, geometry, stream,
                          {static_cast<const uint4*>(from), words, sink});
}

}  // namespace hydrascope::bench
