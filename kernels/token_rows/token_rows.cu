// The kernels of token_rows_cuda.h, which has the equations and the traffic, and what launches them.
//
// Budget: prefix_tokens_kernel: 24 registers, 0 shared bytes
// Budget: mean_of_patches_kernel: 64 registers, 16384 shared bytes
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
  for (std::int64_t i = threadIdx.x; i < p.dim; i += kPrefixThreads)
    x[i] = device::from_float<T>(prefix[i]);
}

template <int pack>
struct MeanShared {
  float sums[kTokenLanes][kPacksOfTile * pack];
};

/// `pack` > 1: rows can be read in packs of it, and dim is a multiple.
template <class T, int pack>
__global__ void __launch_bounds__(kMeanThreads)
    mean_of_patches_kernel(const MeanOfPatchesParams<T> p) {
  constexpr int kColumns = kPacksOfTile * pack;
  constexpr int kLoads = 4;  // on their way before the first is used
  auto& shared = device::block_shared<MeanShared<pack>>();
  const auto tiles = static_cast<unsigned>((p.dim + kColumns - 1) / kColumns);
  const unsigned image = blockIdx.x / tiles;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x % tiles) * kColumns;
  const int thread = static_cast<int>(threadIdx.x);
  const int local = thread % kPacksOfTile * pack;
  const int token_lane = thread / kPacksOfTile;

  float sums[pack] = {};
  if (first_column + local < p.dim) {
    const std::int64_t step = kTokenLanes * p.x_stride;
    const T* x = p.x + image * p.image_stride + (p.num_prefix + token_lane) * p.x_stride +
                 first_column + local;
    const auto add = [&](const device::Pack<T, pack>& values) {
#pragma unroll
      for (int i = 0; i < pack; ++i) sums[i] += device::to_float(values.values[i]);
    };
    std::int64_t token = p.num_prefix + token_lane;
    for (; token + (kLoads - 1) * kTokenLanes < p.tokens; token += kLoads * kTokenLanes) {
      device::Pack<T, pack> values[kLoads];
#pragma unroll
      for (int k = 0; k < kLoads; ++k, x += step) values[k] = device::load_pack<pack>(x);
#pragma unroll
      for (int k = 0; k < kLoads; ++k) add(values[k]);
    }
#pragma unroll 1
    for (; token < p.tokens; token += kTokenLanes, x += step) add(device::load_pack<pack>(x));
  }
#pragma unroll
  for (int i = 0; i < pack; ++i) shared.sums[token_lane][local + i] = sums[i];
  device::block_sync();
  if (thread >= kColumns || first_column + thread >= p.dim) return;
  float sum = 0;
#pragma unroll 8
  for (int lane = 0; lane < kTokenLanes; ++lane) sum += shared.sums[lane][thread];
  p.y[image * p.y_stride + first_column + thread] =
      sum / static_cast<float>(p.tokens - p.num_prefix);
}

template <class T>
void prefix_tokens(const PrefixTokensParams<T>& p, device::Stream stream) {
  if (p.images * p.num_prefix * p.dim == 0) return;
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
  const auto run = [&]<int pack>() {
    device::launch("mean_of_patches_kernel", mean_of_patches_kernel<T, pack>,
                   mean_geometry(p.images, p.dim, pack), stream, p);
  };
  if (device::can_pack(p.x, p.x_stride, kPack) && p.image_stride % kPack == 0 && p.dim % kPack == 0)
    run.template operator()<kPack>();
  else
    run.template operator()<1>();
}

template void prefix_tokens(const PrefixTokensParams<float>&, device::Stream);
template void prefix_tokens(const PrefixTokensParams<BFloat16>&, device::Stream);
template void prefix_tokens(const PrefixTokensParams<Float16>&, device::Stream);

template void mean_of_patches(const MeanOfPatchesParams<float>&, device::Stream);
template void mean_of_patches(const MeanOfPatchesParams<BFloat16>&, device::Stream);
template void mean_of_patches(const MeanOfPatchesParams<Float16>&, device::Stream);

}  // namespace hydrascope::kernels::token_rows::cuda
