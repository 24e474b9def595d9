// The host's half of attention_map.cuh.
#pragma once

#include "kernels/attention_map/attention_map.cuh"
#include "kernels/attention_map/attention_map_cuda.h"
#include "kernels/device/launch.cuh"
#include "kernels/error.h"

#include <initializer_list>
#include <limits>
#include <string>

namespace hydrascope::kernels::attention_map::cuda {

/// Numbers of values and heads that kernels count in 32 bits.
inline void check_sizes(const char* name, std::initializer_list<std::int64_t> sizes) {
  for (const std::int64_t size : sizes)
    if (size < 0 || size > std::numeric_limits<int>::max() / 2)
      throw Error(ErrorCode::invalid_argument,
                  "a map needs sizes of 0 to 2^30, not " + std::to_string(size), name);
}

template <class T>
void launch_hydra_map(const HydraMapParams<T>& p, device::Stream stream) {
  check_sizes("hydra_map", {p.rows, p.dim});
  if (p.rows == 0) return;
  constexpr int kPack = device::kPackSize<T>;
  const bool packed = p.dim % kPack == 0 && device::can_pack(p.k, p.stride, kPack) &&
                      device::can_pack(p.v, p.stride, kPack) && device::can_pack(p.weight, 0, 4);
  device::launch("hydra_map_kernel", packed ? hydra_map_kernel<T, kPack> : hydra_map_kernel<T, 1>,
                 rows_geometry(p.rows), stream, p);
}

template <class T>
void launch_softmax_scores(const SoftmaxScoresParams<T>& p, device::Stream stream) {
  check_sizes("softmax_scores", {p.rows, p.head_dim, p.num_heads});
  if (p.rows == 0 || p.num_heads == 0) return;
  constexpr int kPack = device::kPackSize<T>;
  const bool packed = p.head_dim % kPack == 0 && device::can_pack(p.k, p.k_stride, kPack) &&
                      device::can_pack(p.q, 0, kPack);
  device::launch("softmax_scores_kernel",
                 packed ? softmax_scores_kernel<T, kPack> : softmax_scores_kernel<T, 1>,
                 scores_geometry(p.rows, p.num_heads), stream, p);
}

template <class T>
void launch_linear_scores(const LinearScoresParams<T>& p, device::Stream stream) {
  check_sizes("linear_scores", {p.rows, p.shape.width, p.shape.num_heads});
  if (p.rows == 0 || p.shape.num_heads == 0) return;
  device::launch("linear_scores_kernel", linear_scores_kernel<T>,
                 scores_geometry(p.rows, p.shape.num_heads), stream, p);
}

template <class T>
void launch_value_heat(const ValueHeatParams<T>& p, device::Stream stream) {
  check_sizes("value_heat", {p.rows, p.head_dim, p.num_heads});
  if (p.rows == 0) return;
  constexpr int kPack = device::kPackSize<T>;
  const bool packed = p.head_dim % kPack == 0 && device::can_pack(p.v, p.v_stride, kPack) &&
                      device::can_pack(p.gradient, 0, 4);
  device::launch("value_heat_kernel",
                 packed ? value_heat_kernel<T, kPack> : value_heat_kernel<T, 1>,
                 rows_geometry(p.rows), stream, p);
}

}  // namespace hydrascope::kernels::attention_map::cuda
