// One query's maps on a GPU; attention_map.h has the equations, attention_map_cuda.h the rest.
//
// hydra_map_kernel: grid ceil(n / 32), block 256; a warp four rows, lanes along the features.
// value_heat_kernel: the same, groups of eight lanes on every fourth head.
// softmax_scores_kernel, linear_scores_kernel: grid (ceil(n / 128), H), block 256; eight lanes a
//   row, four rows one after the other.
// normalise_kernel: grid H, block 1024: one block per head, in three passes.
// mean_over_heads_kernel: grid ceil(n / 256), block 256; one thread per row, heads in their order.
// `width` values are loaded at once: a pack of 16 bytes, or one.
//
// Budget: hydra_map_kernel: 128 registers, 0 shared bytes
// Budget: value_heat_kernel: 96 registers, 0 shared bytes
// Budget: softmax_scores_kernel: 64 registers, 0 shared bytes
// Budget: linear_scores_kernel: 64 registers, 0 shared bytes
// Budget: normalise_kernel: 64 registers, 256 shared bytes
// Budget: mean_over_heads_kernel: 64 registers, 0 shared bytes
#pragma once

#include "kernels/attention_map/attention_map.h"
#include "kernels/attention_map/attention_map_geometry.h"
#include "kernels/device/block.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/hydra/row.cuh"
#include "kernels/linear_attention/features.cuh"

#include <cstdint>

namespace hydrascope::kernels::attention_map::cuda {

/// `width` neighbouring values; a pack's address is aligned to it.
template <int width, class T>
__device__ __forceinline__ void load_values(const T* from, float (&values)[width]) {
  if constexpr (width == 1) {
    values[0] = device::to_float(*from);
  } else {
    const device::PackedWords<T> pack = device::load_words(from);
#pragma unroll
    for (int i = 0; i < width; ++i) values[i] = device::value_of(pack, i);
  }
}
/// float32 values that go with a pack of T.
template <int width>
__device__ __forceinline__ void load_factors(const float* from, float (&values)[width]) {
  if constexpr (width == 1) {
    values[0] = *from;
  } else {
    hydra::cuda::load_floats(from, values);
  }
}

template <class T, int width>
__global__ void __launch_bounds__(kThreads, 2) hydra_map_kernel(const HydraMapParams<T> p) {
  const hydra::cuda::NormRule rule = {p.kernel.norm_k, p.kernel.eps_rule, p.kernel.eps};
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * kRowsOfBlock + device::warp_index() * kRowsOfWarp;
  if (first >= p.rows) return;
  const int dim = static_cast<int>(p.dim);
  float norms[kRowsOfWarp] = {};
  float given[kRowsOfWarp] = {};
  for (int at = device::lane_index() * width; at < dim; at += device::kWarpSize * width) {
    float weight[width];
    load_factors(p.weight + at, weight);
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      // Behind the last row the last one again, which nobody writes.
      const std::int64_t row = first + r < p.rows ? first + r : p.rows - 1;
      float k[width];
      float v[width];
      load_values(p.k + row * p.stride + at, k);
      load_values(p.v + row * p.stride + at, v);
#pragma unroll
      for (int i = 0; i < width; ++i) {
        norms[r] = hydra::cuda::add_to_norm(k[i], rule.norm, norms[r]);
        const float product = k[i] * v[i];
        given[r] = p.measure == HydraMeasure::sum
                       ? fmaf(product, weight[i], given[r])
                       : fmaf(product * weight[i], product * weight[i], given[r]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsOfWarp; ++r) {
    const float c = first + r < p.num_prefix ? p.prefix_weight : p.patch_weight;
    const float norm = device::warp_reduce(norms[r], device::Sum());
    const float sum = device::warp_reduce(given[r], device::Sum());
    const float by = c * hydra::cuda::inverse_norm(norm, rule);
    if (device::lane_index() == 0 && first + r < p.rows)
      p.heat[first + r] = p.measure == HydraMeasure::sum ? by * sum : by * by * sum;
  }
}

template <class T, int width>
__global__ void __launch_bounds__(kThreads) value_heat_kernel(const ValueHeatParams<T> p) {
  constexpr int kGroups = device::kWarpSize / kLanesOfHead;
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * kRowsOfBlock + device::warp_index() * kRowsOfWarp;
  if (first >= p.rows) return;
  const int lane = device::lane_index() % kLanesOfHead;
  const int head_dim = static_cast<int>(p.head_dim);
  float heat[kRowsOfWarp] = {};
  for (std::int64_t head = device::lane_index() / kLanesOfHead; head < p.num_heads;
       head += kGroups) {
    const std::int64_t start = head * p.head_dim;
    float sums[kRowsOfWarp] = {};
    for (int at = lane * width; at < head_dim; at += kLanesOfHead * width) {
      float gradient[width];
      load_factors(p.gradient + start + at, gradient);
#pragma unroll
      for (int r = 0; r < kRowsOfWarp; ++r) {
        const std::int64_t row = first + r < p.rows ? first + r : p.rows - 1;
        float v[width];
        load_values(p.v + row * p.v_stride + start + at, v);
#pragma unroll
        for (int i = 0; i < width; ++i) sums[r] = fmaf(gradient[i], v[i], sums[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
      const std::int64_t row = first + r < p.rows ? first + r : p.rows - 1;
      heat[r] = fmaf(p.weights[head * p.weight_stride + row], sums[r], heat[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsOfWarp; ++r) {
    const float sum = device::warp_reduce(heat[r], device::Sum());
    if (device::lane_index() == 0 && first + r < p.rows) p.heat[first + r] = sum;
  }
}

/// The first row of this thread's group; the group's next rows lie one block's groups further on.
__device__ __forceinline__ std::int64_t first_score_row() {
  return static_cast<std::int64_t>(blockIdx.x) * kScoreRowsOfBlock +
         static_cast<int>(threadIdx.x) / kLanesOfHead;
}
inline constexpr int kGroupsOfBlock = kThreads / kLanesOfHead;

template <class T, int width>
__global__ void __launch_bounds__(kThreads) softmax_scores_kernel(const SoftmaxScoresParams<T> p) {
  const int lane = device::lane_index() % kLanesOfHead;
  const int head_dim = static_cast<int>(p.head_dim);
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.y) * p.head_dim;
  const std::int64_t first = first_score_row();
  float sums[kRowsOfGroup] = {};
  for (int at = lane * width; at < head_dim; at += kLanesOfHead * width) {
    float q[width];
    load_values(p.q + start + at, q);
#pragma unroll
    for (int r = 0; r < kRowsOfGroup; ++r) {
      const std::int64_t row = first + r * kGroupsOfBlock;
      float k[width];
      load_values(p.k + (row < p.rows ? row : p.rows - 1) * p.k_stride + start + at, k);
#pragma unroll
      for (int i = 0; i < width; ++i) sums[r] = fmaf(q[i], k[i], sums[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsOfGroup; ++r) {
    const std::int64_t row = first + r * kGroupsOfBlock;
    const float sum = device::warp_reduce<kLanesOfHead>(sums[r], device::Sum());
    if (lane == 0 && row < p.rows) p.scores[blockIdx.y * p.score_stride + row] = sum;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) linear_scores_kernel(const LinearScoresParams<T> p) {
  namespace la = linear_attention::cuda;
  const linear_attention::Feature feature = p.shape.feature;
  const int lane = device::lane_index() % kLanesOfHead;
  const int width = static_cast<int>(p.shape.width);
  const std::int64_t start = static_cast<std::int64_t>(blockIdx.y) * p.shape.width;
  const T* q = p.q + start;
  const la::OfRow of_q = la::of_row<kLanesOfHead>(feature, q, width, p.shape.unit_eps, lane);
  for (int r = 0; r < kRowsOfGroup; ++r) {
    const std::int64_t row = first_score_row() + r * kGroupsOfBlock;
    const T* k = p.k + (row < p.rows ? row : p.rows - 1) * p.k_stride + start;
    const la::OfRow of_k = la::of_row<kLanesOfHead>(feature, k, width, p.shape.unit_eps, lane);
    const float c = row < p.num_prefix ? p.prefix_weight : p.patch_weight;
    float score = 0;
    if (linear_attention::is_exponential(feature)) {
      const bool two_parts = feature != linear_attention::Feature::exp;
      float largest = -INFINITY;
      for (int j = lane; j < width; j += kLanesOfHead) {
        const float a = device::to_float(q[j]);
        const float b = device::to_float(k[j]);
        largest = device::Max()(
            largest, la::exponent(feature, a, false, of_q) + la::exponent(feature, b, false, of_k));
        if (two_parts)
          largest = device::Max()(
              largest, la::exponent(feature, a, true, of_q) + la::exponent(feature, b, true, of_k));
      }
      largest = device::warp_reduce<kLanesOfHead>(largest, device::Max());
      // Where every feature is zero, -inf - 0 still gives zeros, and their logarithm -inf.
      if (largest == -INFINITY) largest = 0;
      float sum = 0;
      for (int j = lane; j < width; j += kLanesOfHead) {
        const float a = device::to_float(q[j]);
        const float b = device::to_float(k[j]);
        sum += expf(la::exponent(feature, a, false, of_q) + la::exponent(feature, b, false, of_k) -
                    largest);
        if (two_parts)
          sum += expf(la::exponent(feature, a, true, of_q) + la::exponent(feature, b, true, of_k) -
                      largest);
      }
      sum = device::warp_reduce<kLanesOfHead>(sum, device::Sum());
      score = largest + logf(sum) + logf(c);
    } else {
      for (int j = lane; j < width; j += kLanesOfHead)
        score = fmaf(la::plain_feature(feature, device::to_float(q[j]), of_q),
                     la::plain_feature(feature, device::to_float(k[j]), of_k), score);
      score = device::warp_reduce<kLanesOfHead>(score, device::Sum()) * c;
    }
    if (lane == 0 && row < p.rows) p.scores[blockIdx.y * p.score_stride + row] = score;
  }
}

struct NormaliseArguments {
  float* scores;
  std::int64_t score_stride;
  std::int64_t num_tokens;
  bool softmax;  ///< else over the sum
  float eps;
};

struct NormaliseShared {
  float of_warp[kNormaliseThreads / device::kWarpSize];
};

/// Reduces the values of all threads of the block; every thread gets the result.
template <class Operation>
__device__ __forceinline__ float block_reduce(NormaliseShared& shared, float value,
                                              Operation operation) {
  value = device::warp_reduce(value, operation);
  device::block_sync();  // what was there has been read
  if (device::lane_index() == 0) shared.of_warp[device::warp_index()] = value;
  device::block_sync();
  return device::warp_reduce(shared.of_warp[device::lane_index()], operation);
}

template <class T>
__global__ void __launch_bounds__(kNormaliseThreads) normalise_kernel(const NormaliseArguments p) {
  auto& shared = device::block_shared<NormaliseShared>();
  T* scores = p.scores + blockIdx.x * p.score_stride;
  const std::int64_t begin = threadIdx.x;
  float sum = 0;
  if (p.softmax) {
    float most = -INFINITY;
    for (std::int64_t t = begin; t < p.num_tokens; t += kNormaliseThreads)
      most = device::Max()(most, scores[t]);
    most = block_reduce(shared, most, device::Max());
    for (std::int64_t t = begin; t < p.num_tokens; t += kNormaliseThreads) {
      const float weight = expf(scores[t] - most);
      scores[t] = weight;
      sum += weight;
    }
    sum = block_reduce(shared, sum, device::Sum());
  } else {
    for (std::int64_t t = begin; t < p.num_tokens; t += kNormaliseThreads) sum += scores[t];
    sum = block_reduce(shared, sum, device::Sum()) + p.eps;
  }
  const float by = 1.0F / sum;
  for (std::int64_t t = begin; t < p.num_tokens; t += kNormaliseThreads) scores[t] *= by;
}

struct MeanArguments {
  const float* weights;
  std::int64_t weight_stride;
  std::int64_t num_heads;
  std::int64_t rows;
  float* heat;
};

template <class T>
__global__ void __launch_bounds__(kThreads) mean_over_heads_kernel(const MeanArguments p) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= p.rows) return;
  T sum = 0;
  for (std::int64_t head = 0; head < p.num_heads; ++head)
    sum += p.weights[head * p.weight_stride + row];
  p.heat[row] = sum * (1.0F / static_cast<float>(p.num_heads));
}

}  // namespace hydrascope::kernels::attention_map::cuda
