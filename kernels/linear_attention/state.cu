// The sums over several runs of tokens as one:
//   M = max_i M_i    S = sum_i exp(M_i - M) S_i    z alike                    (linear_attention.h)
// or, if the sums are relative to no maximum, their plain sums.
//
// combine_kernel: a thread adds four columns of a row, runs in their order: deterministic, and the
//   same for an image whatever its batch. NaN stays. Traffic: F (d + 2) floats per run and head.
//
// Budget: combine_kernel: 48 registers, 0 shared bytes, 5 blocks of 256
// Access: combine_kernel: loads 128, 22 x 32; stores 128, 2 x 32
#include "kernels/device/launch.cuh"
#include "kernels/linear_attention/state.cuh"

#include <cmath>

namespace hydrascope::kernels::linear_attention::cuda {

struct CombineParams {
  State runs;  ///< the first run's
  std::int64_t run_stride;
  int count;
  int features;
  int blocks;        ///< blocks per head
  bool rescales;     ///< M differs from run to run
  bool has_maximum;  ///< M is to be written
  State to;
};

__global__ void __launch_bounds__(kCombineThreads, 5) combine_kernel(const CombineParams p) {
  const auto blocks = static_cast<unsigned>(p.blocks);
  const int groups = p.runs.dim / 4;
  const int item =
      static_cast<int>(blockIdx.x % blocks) * kCombineThreads + static_cast<int>(threadIdx.x);
  const int feature = item / groups;
  const int column = item % groups * 4;
  if (feature >= p.features) return;
  const std::int64_t head = static_cast<std::int64_t>(blockIdx.x / blocks) * gridDim.y + blockIdx.y;
  const std::int64_t row = head * p.features + feature;
  const float* s = p.runs.s(row) + column;
  const float* z = p.runs.z(row);
  const float* maximum = p.runs.maximum(row);

  float largest = 0;
  if (p.rescales) {
    largest = -INFINITY;
#pragma unroll 4
    for (int run = 0; run < p.count; ++run)
      largest = device::Max()(largest, maximum[run * p.run_stride]);
  }
  float sum[4] = {};
  float z_sum = 0;
#pragma unroll 4
  for (int run = 0; run < p.count; ++run) {
    const std::int64_t at = run * p.run_stride;
    const float factor = p.rescales ? expf(maximum[at] - largest) : 1.0F;
    float values[4];
    device::load_floats(s + at, values);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] = fmaf(values[i], factor, sum[i]);
    z_sum = fmaf(z[at], factor, z_sum);
  }
  device::store_pack(p.to.s(row) + column,
                     device::Pack<float, 4>{{sum[0], sum[1], sum[2], sum[3]}});
  if (column != 0) return;
  *p.to.z(row) = z_sum;
  if (p.has_maximum) *p.to.maximum(row) = largest;
}

void combine(const Shape& shape, std::int64_t images, const float* runs, std::int64_t run_stride,
             std::int64_t count, bool keys, float* to, device::Stream stream) {
  const CombineParams params{State(runs, shape, images),
                             run_stride,
                             static_cast<int>(count),
                             static_cast<int>(shape.features()),
                             static_cast<int>(combine_blocks(shape)),
                             keys && is_exponential(shape.rule.feature),
                             keys,
                             State(to, shape, images)};
  device::launch("linear_attention_combine_kernel", combine_kernel, combine_geometry(shape, images),
                 stream, params);
}

}  // namespace hydrascope::kernels::linear_attention::cuda
