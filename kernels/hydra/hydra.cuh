// Hydra attention on a GPU, forward, from a row in registers to the result. hydra_cuda.h has the
// equations, the tensors and the split of the work; hydra.cu launches it.
//
// project_kernel: grid images * splits, block 256. A block sums its share of an image's tokens (each
//   warp one row at a time, in registers as packs of 16 bytes) and writes the sum (D floats) to the
//   workspace. The last block of every 16 adds the sums of the 16, the last block of these writes c
//   and g. Every sum has a fixed order: by rows in a warp, by warps, by splits; nothing depends on
//   which block is last.
// gate_kernel: grid images * ceil(queries / 32), block 256, four rows per warp.
//
// Budget: project_kernel: 128 registers, 8448 shared bytes, 2 blocks of 256
// Access: project_kernel: loads 128, 99 x 32; stores 15 x 32; fences
// Budget: gate_kernel: 128 registers, 0 shared bytes, 2 blocks of 256
// Access: gate_kernel: loads 128; stores 128
#pragma once

#include "kernels/device/block.cuh"
#include "kernels/device/rows.cuh"
#include "kernels/device/vector_io.cuh"
#include "kernels/hydra/hydra_cuda.h"
#include "kernels/hydra/norm.h"

#include <cstdint>

namespace hydrascope::kernels::hydra::cuda {

using device::load_floats;
using device::row_of;

// ---- a token's row and its norm -----------------------------------------------------------------

/// A lane's part of a row: packs of 16 bytes, neighbouring lanes holding neighbouring packs.
template <class T, int packs>
struct RowShare {
  device::PackedWords<T> pack[packs];
};
/// Index of the first value of a lane's pack.
template <class T>
__device__ __forceinline__ int pack_start(int pack) {
  return (pack * device::kWarpSize + device::lane_index()) * device::kPackSize<T>;
}

/// Zeros after the row, and in place of a row that is not `inside`.
template <int packs, class T>
__device__ __forceinline__ RowShare<T, packs> load_row(const T* row, int dim, bool inside) {
  RowShare<T, packs> share;
#pragma unroll
  for (int pack = 0; pack < packs; ++pack) {
    const int at = pack_start<T>(pack);
    if (inside && at < dim) {
      share.pack[pack] = device::load_words(row + at);
    } else {
      share.pack[pack] = {};
    }
  }
  return share;
}

/// 1 / r of a row. The row is read again afterwards, and until then takes 16 bytes per pack.
template <class T, int packs>
__device__ __forceinline__ float inverse_norm_of(RowShare<T, packs>& x, const NormRule& rule) {
  float sum = 0;
  if (rule.norm != Norm::none) {
#pragma unroll
    for (int pack = 0; pack < packs; ++pack) {
#pragma unroll
      for (int i = 0; i < device::kPackSize<T>; ++i) {
        const float value = device::value_of(x.pack[pack], i);
        sum = rule.norm == Norm::l2 ? fmaf(value, value, sum) : sum + fabsf(value);
      }
      device::forget_values(x.pack[pack]);
    }
  }
  return inverse_norm(device::warp_reduce(sum, device::Sum{}), rule);
}

// ---- project: c = sum_t w_t (k_t / r(k_t)) * v_t ------------------------------------------------

/// A sum over an image's tokens that several blocks share.
struct SplitSum {
  std::int64_t tokens;
  int dim;
  int share;           ///< tokens of a split, one block's work
  int splits;          ///< per image
  int groups;          ///< groups of at most kGroup splits, per image
  unsigned* counters;  ///< (B, groups + 1)
  float* partial;      ///< (B, splits, D)

  SplitSum(const Shape& shape, void* workspace)
      : tokens(shape.tokens),
        dim(static_cast<int>(shape.dim)),
        share(static_cast<int>(project_share(tokens))),
        splits(static_cast<int>(project_splits(tokens))),
        groups(static_cast<int>(project_groups(tokens))),
        counters(static_cast<unsigned*>(workspace)),
        partial(reinterpret_cast<float*>(
            static_cast<unsigned char*>(workspace) +
            workspace_layout(shape.images, shape.tokens, shape.dim).partial)) {}
};

/// The split of a block.
struct Split {
  std::int64_t image;
  int index;
  std::int64_t begin;  ///< its first token
  int rows;            ///< its tokens; 0 if the image has none
  float* partial;      ///< (D): the place of its sum
};
__device__ __forceinline__ Split split_of_block(const SplitSum& all) {
  Split split{};
  split.image = blockIdx.x / static_cast<unsigned>(all.splits);
  split.index = static_cast<int>(blockIdx.x % static_cast<unsigned>(all.splits));
  split.begin = static_cast<std::int64_t>(split.index) * all.share;
  const std::int64_t left = all.tokens - split.begin;
  split.rows = left < all.share ? static_cast<int>(left) : all.share;
  split.partial = all.partial + (split.image * all.splits + split.index) * all.dim;
  return split;
}

template <class T>
struct ProjectArguments {
  Rows<const T> k;
  Rows<const T> v;
  device::TokenWeights weights;
  NormRule rule;
  SplitSum split_sum;
  const float* feature_scale;  ///< (D) or null
  float* global;               ///< (B, D): feature_scale * c
  float* sum;                  ///< (B, D) or null: c
};

/// A lane's sums of products, for its packs of a row.
template <class T, int packs>
using LaneSums = float[packs][device::kPackSize<T>];

/// sums += factor x * y of `rows` rows, in their order.
template <int rows, class T, int packs>
__device__ __forceinline__ void add_products(const RowShare<T, packs> (&x)[rows],
                                             const RowShare<T, packs> (&y)[rows],
                                             const float (&factor)[rows],
                                             LaneSums<T, packs>& sums) {
#pragma unroll
  for (int pack = 0; pack < packs; ++pack)
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int i = 0; i < device::kPackSize<T>; ++i)
        sums[pack][i] = fmaf(device::value_of(x[r].pack[pack], i) * factor[r],
                             device::value_of(y[r].pack[pack], i), sums[pack][i]);
}

/// A column of each warp's sums: each lane's one pack of 8, or two packs of 4.
struct ProjectShared {
  float sums[kWarps][kThreads];
};
/// The sums of a block's warps as its partial sum. A collective of the block.
template <class T, int packs>
__device__ __forceinline__ void add_warps(const LaneSums<T, packs>& sums, ProjectShared& shared,
                                          float* partial, int dim) {
  constexpr int kWidth = device::kPackSize<T>;
  constexpr int kPacksAtOnce = kThreads / (device::kWarpSize * kWidth);
  const int warp = device::warp_index();
#pragma unroll
  for (int from = 0; from < packs; from += kPacksAtOnce) {
    if (from > 0) device::block_sync();  // the columns before these have been read
#pragma unroll
    for (int pack = from; pack < from + kPacksAtOnce && pack < packs; ++pack)
#pragma unroll
      for (int i = 0; i < kWidth; i += 4)
        device::store_pack(&shared.sums[warp][pack_start<T>(pack - from) + i],
                           device::Pack<float, 4>{{sums[pack][i], sums[pack][i + 1],
                                                   sums[pack][i + 2], sums[pack][i + 3]}});
    device::block_sync();
    const int column = static_cast<int>(threadIdx.x);
    const int f = from * device::kWarpSize * kWidth + column;
    if (f < dim) {
      float sum = shared.sums[0][column];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) sum += shared.sums[w][column];
      partial[f] = sum;
    }
  }
}

/// One column's sum of at most kGroup partial sums, in their order.
__device__ __forceinline__ float sum_of_group(const float* partial, int count,
                                              std::int64_t stride) {
  float values[kGroup];
#pragma unroll
  for (int i = 0; i < kGroup; ++i) values[i] = i < count ? partial[i * stride] : 0.0F;
  float sum = values[0];
#pragma unroll
  for (int i = 1; i < kGroup; ++i) sum += values[i];
  return sum;
}
/// store(f, sum of column f) for every column. A thread takes three at once: their loads from L2 are
/// under way together.
template <class Store>
__device__ __forceinline__ void add_group(const float* partial, int count, std::int64_t stride,
                                          int dim, const Store& store) {
  constexpr int kColumns = 3;
#pragma unroll 1
  for (int begin = static_cast<int>(threadIdx.x); begin < dim; begin += kColumns * kThreads) {
    float sums[kColumns];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int f = begin + j * kThreads;
      sums[j] = f < dim ? sum_of_group(partial + f, count, stride) : 0.0F;
    }
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const int f = begin + j * kThreads;
      if (f < dim) store(f, sums[j]);
    }
  }
}
/// After a block has written its partial sum: the last blocks add the sums, by a tree of two
/// levels, and store the image's c and g.
template <class T>
__device__ __forceinline__ void finish_project(const ProjectArguments<T>& p, const Split& split) {
  const SplitSum& all = p.split_sum;
  constexpr int kSplits = static_cast<int>(kGroup);
  unsigned* counters = all.counters + split.image * (all.groups + 1);
  float* of_image = all.partial + split.image * all.splits * all.dim;
  const int group = split.index / kSplits;
  const int first = group * kSplits;
  int count = all.splits - first < kSplits ? all.splits - first : kSplits;
  if (!device::last_block(counters + group, static_cast<unsigned>(count))) return;
  std::int64_t stride = all.dim;
  if (all.groups > 1) {
    // The group's sum takes the place of its first split, whose column no other thread reads.
    float* of_group = of_image + static_cast<std::int64_t>(first) * all.dim;
    add_group(of_group, count, stride, all.dim, [=](int f, float sum) { of_group[f] = sum; });
    if (!device::last_block(counters + all.groups, static_cast<unsigned>(all.groups))) return;
    count = all.groups;
    stride *= kGroup;
  }
  add_group(of_image, count, stride, all.dim, [&](int f, float sum) {
    const std::int64_t at = split.image * all.dim + f;
    p.global[at] = p.feature_scale == nullptr ? sum : p.feature_scale[f] * sum;
    if (p.sum != nullptr) p.sum[at] = sum;
  });
}

template <class T, int packs>
__global__ void __launch_bounds__(kThreads, 2) project_kernel(const ProjectArguments<T> p) {
  constexpr int kRows = rows_in_flight(packs);
  auto& shared = device::block_shared<ProjectShared>();
  const Split split = split_of_block(p.split_sum);
  const int dim = p.split_sum.dim;
  LaneSums<T, packs> sums = {};
  for (int first = device::warp_index() * kRows; first < split.rows; first += kWarps * kRows) {
    const std::int64_t token = split.begin + first;
    RowShare<T, packs> k[kRows];
    RowShare<T, packs> v[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const bool inside = first + r < split.rows;
      k[r] = load_row<packs>(row_of(p.k, split.image, token + r), dim, inside);
      v[r] = load_row<packs>(row_of(p.v, split.image, token + r), dim, inside);
    }
    float factor[kRows];  // w / r
#pragma unroll
    for (int r = 0; r < kRows; ++r) factor[r] = inverse_norm_of(k[r], p.rule);
#pragma unroll
    for (int r = 0; r < kRows; ++r)  // a row after the last is one of zeros: 1 / r may be infinite
      factor[r] = first + r < split.rows ? p.weights.of(token + r) * factor[r] : 0.0F;
    add_products(k, v, factor, sums);
  }
  add_warps<T, packs>(sums, shared, split.partial, dim);
  finish_project(p, split);
}

// ---- gate: y_i = (q_i / r(q_i)) * g -------------------------------------------------------------

/// The rows of a block.
struct BlockRows {
  std::int64_t image;
  std::int64_t begin;
  int count;
};
__device__ __forceinline__ BlockRows rows_of_block(std::int64_t tokens, int blocks_of_image) {
  const auto blocks = static_cast<unsigned>(blocks_of_image);
  const std::int64_t begin = blockIdx.x % blocks * kRowsOfBlock;
  const std::int64_t left = tokens - begin;
  return {blockIdx.x / blocks, begin, static_cast<int>(left < kRowsOfBlock ? left : kRowsOfBlock)};
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
  const BlockRows rows = rows_of_block(p.queries, p.blocks_of_image);
  int first = device::warp_index() * kRows;
  if (first >= rows.count) return;
  float g[packs][kWidth];
#pragma unroll
  for (int pack = 0; pack < packs; ++pack) {
    const int at = pack_start<T>(pack);
    if (at < p.dim) load_floats(p.global + rows.image * p.dim + at, g[pack]);
  }
  for (; first < rows.count; first += kWarps * kRows) {
    RowShare<T, packs> q[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      q[r] = load_row<packs>(row_of(p.q, rows.image, rows.begin + first + r), p.dim,
                             first + r < rows.count);
    float inverse[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) inverse[r] = inverse_norm_of(q[r], p.rule);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r >= rows.count) break;
      T* y = row_of(p.y, rows.image, rows.begin + first + r);
#pragma unroll
      for (int pack = 0; pack < packs; ++pack) {
        const int at = pack_start<T>(pack);
        if (at >= p.dim) continue;
        float values[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i)
          values[i] = device::value_of(q[r].pack[pack], i) * inverse[r] * g[pack][i];
        device::store_global(y + at, device::from_floats<T>(values));
      }
    }
  }
}

}  // namespace hydrascope::kernels::hydra::cuda
