// The kernels of token_rows_cuda.h, which has the equations and the traffic, and their launches.
//
// Budget: prefix_tokens_kernel: 32 registers, 0 shared bytes, 8 blocks of 256
// Access: prefix_tokens_kernel: loads 128; stores 128
// Budget: mean_of_patches_kernel: 32 registers, 16384 shared bytes, 4 blocks of 512; 64 registers elsewhere
// Access: mean_of_patches_kernel: loads 128; stores 1 x 32
#include "kernels/device/block.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/error.h"
#include "kernels/token_rows/token_rows_cuda.h"

#include <cstdint>

namespace hydrascope::kernels::token_rows::cuda {

template <class T>
__global__ void __launch_bounds__(kPrefixThreads)
    prefix_tokens_kernel(const PrefixTokensParams<T> p) {
  const auto num_prefix = static_cast<unsigned>(p.num_prefix);
  const unsigned image = blockIdx.x / num_prefix;
  const unsigned token = blockIdx.x % num_prefix;
  T* x = p.x + image * p.image_stride + token * p.x_stride;
  const float* prefix = p.prefix + token * p.dim;
  constexpr int kPack = device::kPackSize<T>;
  for (std::int64_t i = threadIdx.x * kPack; i < p.dim; i += kPrefixThreads * kPack) {
    float values[kPack];
    device::load_floats(prefix + i, values);
    device::store_global(x + i, device::from_floats<T>(values));
  }
}

template <class T>
__global__ void __launch_bounds__(kMeanThreads)
    mean_of_patches_kernel(const MeanOfPatchesParams<T> p) {
  constexpr int kPack = device::kPackSize<T>;
  constexpr int kColumns = kPacksOfTile * kPack;
  constexpr int kLoads = 4;  // on their way before the first is used
  auto& shared = device::block_shared<float[kTokenLanes][kColumns]>();
  const auto tiles = static_cast<unsigned>((p.dim + kColumns - 1) / kColumns);
  const unsigned image = blockIdx.x / tiles;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x % tiles) * kColumns;
  const int thread = static_cast<int>(threadIdx.x);
  const int local = thread % kPacksOfTile * kPack;
  const int token_lane = thread / kPacksOfTile;

  float sums[kPack] = {};
  if (first_column + local < p.dim) {
    const std::int64_t step = kTokenLanes * p.x_stride;
    const T* x = p.x + image * p.image_stride + (p.num_prefix + token_lane) * p.x_stride +
                 first_column + local;
    const auto add = [&](const device::Pack<T, kPack>& values) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) sums[i] += device::to_float(values.values[i]);
    };
    std::int64_t token = p.num_prefix + token_lane;
    for (; token + (kLoads - 1) * kTokenLanes < p.tokens; token += kLoads * kTokenLanes) {
      device::Pack<T, kPack> values[kLoads];
#pragma unroll
      for (int k = 0; k < kLoads; ++k, x += step) values[k] = device::load_pack<kPack>(x);
#pragma unroll
      for (int k = 0; k < kLoads; ++k) add(values[k]);
    }
#pragma unroll 1
    for (; token < p.tokens; token += kTokenLanes, x += step) add(device::load_pack<kPack>(x));
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) shared[token_lane][local + i] = sums[i];
  device::block_sync();
  if (thread >= kColumns || first_column + thread >= p.dim) return;
  float sum = 0;
#pragma unroll 8
  for (int lane = 0; lane < kTokenLanes; ++lane) sum += shared[lane][thread];
  p.y[image * p.y_stride + first_column + thread] =
      sum / static_cast<float>(p.tokens - p.num_prefix);
}

template <class T>
void prefix_tokens(const PrefixTokensParams<T>& p, device::Stream stream) {
  if (p.images * p.num_prefix * p.dim == 0) return;
  constexpr int kPack = device::kPackSize<T>;
  device::require_packs(device::can_pack(p.x, p.x_stride, kPack) && p.image_stride % kPack == 0 &&
                            p.dim % kPack == 0 && device::can_pack(p.prefix, p.dim, 4),
                        "prefix_tokens");
  device::launch("prefix_tokens_kernel", prefix_tokens_kernel<T>,
                 prefix_geometry(p.images, p.num_prefix), stream, p);
}

template <class T>
void mean_of_patches(const MeanOfPatchesParams<T>& p, device::Stream stream) {
  if (p.tokens <= p.num_prefix)
    throw Error(ErrorCode::internal, "a mean of patches needs one behind the prefix",
                "mean_of_patches");
  if (p.images * p.dim == 0) return;
  constexpr int kPack = device::kPackSize<T>;
  device::require_packs(
      device::can_pack(p.x, p.x_stride, kPack) && p.image_stride % kPack == 0 && p.dim % kPack == 0,
      "mean_of_patches");
  device::launch("mean_of_patches_kernel", mean_of_patches_kernel<T>,
                 mean_geometry(p.images, p.dim, kPack), stream, p);
}

template void prefix_tokens(const PrefixTokensParams<float>&, device::Stream);
template void prefix_tokens(const PrefixTokensParams<BFloat16>&, device::Stream);
template void prefix_tokens(const PrefixTokensParams<Float16>&, device::Stream);

template void mean_of_patches(const MeanOfPatchesParams<float>&, device::Stream);
template void mean_of_patches(const MeanOfPatchesParams<BFloat16>&, device::Stream);
template void mean_of_patches(const MeanOfPatchesParams<Float16>&, device::Stream);

}  // namespace hydrascope::kernels::token_rows::cuda
