// Hydra attention on a GPU, forward; what it computes, from where and how it is cut says
// hydra_cuda.h.
//
// project_kernel, project_any_kernel: grid images * splits, block 256. A block sums its share of an
//   image's tokens (each warp one row at a time), writes the sum (D floats) to the workspace; the
//   last block of every 16 adds theirs, the last of those writes c and g. Order of every sum: the
//   rows of a warp in theirs, the warps in theirs, splits in theirs; nothing depends on which block
//   is last.
// gate_kernel, gate_any_kernel: grid images * ceil(queries / 32), block 256, a warp four rows.
// The kernels without `any` hold rows in registers as packs of 16 bytes; `any` reads a row twice, a
//   value at a time, and takes every dim, stride and alignment.
// With `gradient`, project_kernel is the first half of the backward pass: on q and grad_y it sums
//   dc and, as both are in its registers, writes grad_q.
//
// Budget: project_kernel: 128 registers, 8448 shared bytes
// Budget: query_gradient_kernel: 255 registers, 8448 shared bytes
// Budget: project_any_kernel: 64 registers, 1024 shared bytes
// Budget: gate_kernel: 128 registers, 0 shared bytes
// Budget: gate_any_kernel: 64 registers, 0 shared bytes
#pragma once

#include "kernels/hydra/hydra_geometry.h"
#include "kernels/hydra/row.cuh"

namespace hydrascope::kernels::hydra::cuda {

/// The rows are k and v, with `gradient` q and grad_y.
template <class T>
struct ProjectArguments {
  Rows<const T> x;  ///< normalised
  Rows<const T> other;
  std::int64_t tokens;
  std::int64_t num_prefix;
  float prefix_weight;
  float patch_weight;
  NormRule rule;
  int dim;
  int share;  ///< tokens of a block
  int splits;
  int groups;
  unsigned* counters;          ///< (B, groups + 1)
  float* partial;              ///< (B, splits, D)
  const float* feature_scale;  ///< (D) or null
  float* global;               ///< (B, D): feature_scale * sum
  float* sum;                  ///< (B, D) or null
  // with `gradient`
  const float* gate;  ///< (B, D): g; the gradient of a normalised row is other * g
  Rows<T> grad_x;
  const float* factor;  ///< (B, D), with `product`
  float* product;       ///< (B, D) or null: factor * sum
};

template <class T>
__device__ __forceinline__ float token_weight(const ProjectArguments<T>& p, std::int64_t token) {
  return token < p.num_prefix ? p.prefix_weight : p.patch_weight;
}

/// Columns of a thread that finish_sum takes at once: their loads from L2 are under way together.
inline constexpr int kColumns = 3;

/// One column's sums of at most kGroup splits, in their order.
__device__ __forceinline__ float sum_of_group(const float* from, int count, std::int64_t stride) {
  float values[kGroup];
#pragma unroll
  for (int i = 0; i < kGroup; ++i) values[i] = i < count ? from[i * stride] : 0.0F;
  float sum = values[0];
#pragma unroll
  for (int i = 1; i < kGroup; ++i) sum += values[i];
  return sum;
}

/// After a block has written its split of the partial sums.
template <class T>
__device__ __forceinline__ void finish_sum(const ProjectArguments<T>& p, std::int64_t image,
                                           int split) {
  unsigned* counters = p.counters + image * (p.groups + 1);
  float* partial = p.partial + image * p.splits * p.dim;
  constexpr int kSplits = static_cast<int>(kGroup);
  const int group = split / kSplits;
  const int first = group * kSplits;
  int count = p.splits - first < kSplits ? p.splits - first : kSplits;
  if (!device::last_block(counters + group, static_cast<unsigned>(count))) return;
  std::int64_t stride = p.dim;
  if (p.groups > 1) {
    float* of_group = partial + static_cast<std::int64_t>(first) * p.dim;
    for (int begin = static_cast<int>(threadIdx.x); begin < p.dim; begin += kColumns * kThreads) {
      float sums[kColumns];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const int f = begin + j * kThreads;
        sums[j] = f < p.dim ? sum_of_group(of_group + f, count, stride) : 0.0F;
      }
      // In the place of the group's first split, whose column no other thread reads.
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const int f = begin + j * kThreads;
        if (f < p.dim) of_group[f] = sums[j];
      }
    }
    if (!device::last_block(counters + p.groups, static_cast<unsigned>(p.groups))) return;
    count = p.groups;
    stride *= kGroup;
  }
  const std::int64_t row = image * p.dim;
  for (int begin = static_cast<int>(threadIdx.x); begin < p.dim; begin += kColumns * kThreads) {
    float sums[kColumns];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int f = begin + j * kThreads;
      sums[j] = f < p.dim ? sum_of_group(partial + f, count, stride) : 0.0F;
    }
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int f = begin + j * kThreads;
      if (f >= p.dim) break;
      p.global[row + f] = p.feature_scale == nullptr ? sums[j] : p.feature_scale[f] * sums[j];
      if (p.sum != nullptr) p.sum[row + f] = sums[j];
      if (p.product != nullptr) p.product[row + f] = p.factor[row + f] * sums[j];
    }
  }
}

/// A column of each warp's sums: of one pack of 8 of each lane, or of two of 4.
struct ProjectShared {
  float sums[kWarps][kThreads];
};

template <class T, int packs, bool gradient>
__device__ __forceinline__ void project_rows(const ProjectArguments<T>& p) {
  constexpr int kWidth = device::kPackSize<T>;
  constexpr int kRows = rows_in_flight(packs);
  auto& shared = device::block_shared<ProjectShared>();
  const std::int64_t image = blockIdx.x / static_cast<unsigned>(p.splits);
  const int split = static_cast<int>(blockIdx.x % static_cast<unsigned>(p.splits));
  const int warp = device::warp_index();
  const std::int64_t begin = static_cast<std::int64_t>(split) * p.share;
  const std::int64_t left = p.tokens - begin;
  const int rows = left < p.share ? static_cast<int>(left) : p.share;

  float sums[packs][kWidth];
#pragma unroll
  for (int pack = 0; pack < packs; ++pack)
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums[pack][i] = 0;

  for (int first = warp * kRows; first < rows; first += kWarps * kRows) {
    RowShare<T, packs> x[kRows];
    RowShare<T, packs> other[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t token = begin + first + r;
      const bool inside = first + r < rows;
      x[r] = load_row<packs>(row_of(p.x, image, token), p.dim, inside);
      other[r] = load_row<packs>(row_of(p.other, image, token), p.dim, inside);
    }
    float by[kRows];  // weight / r
    if constexpr (gradient) {
      NormGradient derived[kRows];
      gradients_of_rows(x, other, p.gate + image * p.dim, p.dim, p.rule, derived);
#pragma unroll
      for (int pack = 0; pack < packs; ++pack) {
        const int at = pack_start<T>(pack);
        if (at >= p.dim) continue;
        float g[kWidth];  // again from L1: there is no room to keep it
        load_floats(p.gate + image * p.dim + at, g);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          if (first + r >= rows) continue;
          float gradients[kWidth];
#pragma unroll
          for (int i = 0; i < kWidth; ++i)
            gradients[i] = derived[r](device::value_of(x[r].pack[pack], i),
                                      device::value_of(other[r].pack[pack], i) * g[i]);
          device::store_pack(row_of(p.grad_x, image, begin + first + r) + at,
                             device::from_floats<T>(gradients));
          device::forget_values(x[r].pack[pack]);
          device::forget_values(other[r].pack[pack]);
        }
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) by[r] = derived[r].inverse;
    } else {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        by[r] =
            inverse_norm(device::warp_reduce(norm_share(x[r], p.rule.norm), device::Sum{}), p.rule);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r)  // a row after the last is one of zeros: 1 / r may be infinite
      by[r] = first + r < rows ? token_weight(p, begin + first + r) * by[r] : 0.0F;
#pragma unroll
    for (int pack = 0; pack < packs; ++pack)
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int i = 0; i < kWidth; ++i)
          sums[pack][i] = fmaf(device::value_of(x[r].pack[pack], i) * by[r],
                               device::value_of(other[r].pack[pack], i), sums[pack][i]);
  }

  constexpr int kTogether = kThreads / (device::kWarpSize * kWidth);
  float* partial = p.partial + (image * p.splits + split) * p.dim;
#pragma unroll
  for (int from = 0; from < packs; from += kTogether) {
    if (from > 0) device::block_sync();  // the columns before these have been read
#pragma unroll
    for (int pack = from; pack < from + kTogether && pack < packs; ++pack)
#pragma unroll
      for (int i = 0; i < kWidth; i += 4)
        device::store_pack(&shared.sums[warp][pack_start<T>(pack - from) + i],
                           device::Pack<float, 4>{{sums[pack][i], sums[pack][i + 1],
                                                   sums[pack][i + 2], sums[pack][i + 3]}});
    device::block_sync();
    const int column = static_cast<int>(threadIdx.x);
    const int f = from * device::kWarpSize * kWidth + column;
    if (f < p.dim) {
      float sum = shared.sums[0][column];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) sum += shared.sums[w][column];
      partial[f] = sum;
    }
  }
  finish_sum(p, image, split);
}

template <class T, int packs>
__global__ void __launch_bounds__(kThreads, 2) project_kernel(const ProjectArguments<T> p) {
  project_rows<T, packs, false>(p);
}
/// Where a lane holds 6 packs, the sums, both rows and the gradient need more than the registers of
/// two blocks per multiprocessor; one has 48 KB on their way.
template <class T, int packs>
__global__ void __launch_bounds__(kThreads, packs == 6 ? 1 : 2)
    query_gradient_kernel(const ProjectArguments<T> p) {
  project_rows<T, packs, true>(p);
}

/// What project_any_kernel knows of kRowsOfBlock rows before it sums their columns.
struct ProjectAnyShared {
  float factor[kRowsOfBlock];  ///< weight / r
  NormGradient derived[kRowsOfBlock];
};

template <class T, bool gradient>
__global__ void __launch_bounds__(kThreads) project_any_kernel(const ProjectArguments<T> p) {
  auto& shared = device::block_shared<ProjectAnyShared>();
  const std::int64_t image = blockIdx.x / static_cast<unsigned>(p.splits);
  const int split = static_cast<int>(blockIdx.x % static_cast<unsigned>(p.splits));
  const int lane = device::lane_index();
  const std::int64_t begin = static_cast<std::int64_t>(split) * p.share;
  const std::int64_t end = begin + p.share < p.tokens ? begin + p.share : p.tokens;
  float* partial = p.partial + (image * p.splits + split) * p.dim;
  const float* gate = gradient ? p.gate + image * p.dim : nullptr;

  if (begin >= end)  // no token at all
    for (int f = static_cast<int>(threadIdx.x); f < p.dim; f += kThreads) partial[f] = 0;
  for (std::int64_t first = begin; first < end; first += kRowsOfBlock) {
    const int rows = static_cast<int>(end - first < kRowsOfBlock ? end - first : kRowsOfBlock);
    for (int r = device::warp_index(); r < rows; r += kWarps) {
      const T* x = row_of(p.x, image, first + r);
      float inverse = 0;
      if constexpr (gradient) {
        const NormGradient derived =
            gradient_of_row(x, row_of(p.other, image, first + r), gate, p.dim, p.rule);
        inverse = derived.inverse;
        if (lane == 0) shared.derived[r] = derived;
      } else {
        inverse = inverse_norm(norm_of_row(x, p.dim, p.rule.norm), p.rule);
      }
      if (lane == 0) shared.factor[r] = token_weight(p, first + r) * inverse;
    }
    device::block_sync();
    for (int f = static_cast<int>(threadIdx.x); f < p.dim; f += kThreads) {
      float sum = first == begin ? 0.0F : partial[f];
      for (int r = 0; r < rows; ++r) {
        const float value = device::to_float(row_of(p.x, image, first + r)[f]);
        const float with = device::to_float(row_of(p.other, image, first + r)[f]);
        sum = fmaf(value * shared.factor[r], with, sum);
        if constexpr (gradient)
          row_of(p.grad_x, image, first + r)[f] =
              device::from_float<T>(shared.derived[r](value, with * gate[f]));
      }
      partial[f] = sum;
    }
    device::block_sync();  // before the next rows' factors
  }
  finish_sum(p, image, split);
}

template <class T>
struct GateArguments {
  Rows<const T> q;
  Rows<T> y;
  const float* global;  ///< (B, D)
  std::int64_t queries;
  NormRule rule;
  int dim;
  int blocks_of_image;
};

template <class T, int packs>
__global__ void __launch_bounds__(kThreads, 2) gate_kernel(const GateArguments<T> p) {
  constexpr int kWidth = device::kPackSize<T>;
  constexpr int kRows = gate_rows_in_flight(packs);
  const std::int64_t image = blockIdx.x / static_cast<unsigned>(p.blocks_of_image);
  const std::int64_t begin = blockIdx.x % static_cast<unsigned>(p.blocks_of_image) * kRowsOfBlock;
  const std::int64_t left = p.queries - begin;
  const int rows = static_cast<int>(left < kRowsOfBlock ? left : kRowsOfBlock);

  int first = device::warp_index() * kRows;
  if (first >= rows) return;
  float g[packs][kWidth];
#pragma unroll
  for (int pack = 0; pack < packs; ++pack) {
    const int at = pack_start<T>(pack);
    if (at < p.dim) load_floats(p.global + image * p.dim + at, g[pack]);
  }
  for (; first < rows; first += kWarps * kRows) {
    RowShare<T, packs> q[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      q[r] = load_row<packs>(row_of(p.q, image, begin + first + r), p.dim, first + r < rows);
    float inverse[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      inverse[r] =
          inverse_norm(device::warp_reduce(norm_share(q[r], p.rule.norm), device::Sum{}), p.rule);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r >= rows) break;
      T* y = row_of(p.y, image, begin + first + r);
#pragma unroll
      for (int pack = 0; pack < packs; ++pack) {
        const int at = pack_start<T>(pack);
        if (at >= p.dim) continue;
        float values[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i)
          values[i] = device::value_of(q[r].pack[pack], i) * inverse[r] * g[pack][i];
        device::store_pack(y + at, device::from_floats<T>(values));
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) gate_any_kernel(const GateArguments<T> p) {
  const std::int64_t image = blockIdx.x / static_cast<unsigned>(p.blocks_of_image);
  const std::int64_t begin = blockIdx.x % static_cast<unsigned>(p.blocks_of_image) * kRowsOfBlock;
  const std::int64_t left = p.queries - begin;
  const int rows = static_cast<int>(left < kRowsOfBlock ? left : kRowsOfBlock);
  const float* g = p.global + image * p.dim;
  for (int r = device::warp_index(); r < rows; r += kWarps) {
    const T* q = row_of(p.q, image, begin + r);
    T* y = row_of(p.y, image, begin + r);
    const float inverse = inverse_norm(norm_of_row(q, p.dim, p.rule.norm), p.rule);
    for (int f = device::lane_index(); f < p.dim; f += device::kWarpSize)
      y[f] = device::from_float<T>(device::to_float(q[f]) * inverse * g[f]);
  }
}

}  // namespace hydrascope::kernels::hydra::cuda
