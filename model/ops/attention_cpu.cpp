// Hydra and linear attention on the CPU: kernels/hydra over tiles of tokens, one pass for c and one for y;
// kernels/linear_attention over tiles of one head's tokens, one pass for S, z and M and one for y.
// Tiles depend on the number of tokens alone and are summed in their order, so a result depends
// neither on the batch nor on the number of threads.
#include "kernels/hydra/hydra.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/vector/aligned_buffer.h"
#include "model/ops/hydra_attention.h"
#include "model/ops/linear_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
namespace hydra = kernels::hydra;
namespace linear = kernels::linear_attention;

/// A tile of a sequence of tokens, which are an image's or those of one of its heads.
struct Tile {
  std::int64_t sequence;
  std::int64_t index;  ///< sequence * tiles + tile
  std::int64_t first;  ///< token
  std::int64_t rows;
};

/// Sequences cut into tiles of one length, the last of which may be shorter.
struct Tiling {
  /// `grain`: the values, `width` of each token, that a thread takes at least; below, waking it costs
  /// more than it saves.
  Tiling(std::int64_t sequences_, std::int64_t tokens_, std::int64_t most, std::int64_t width,
         std::int64_t grain)
      : sequences(sequences_),
        tokens(tokens_),
        tiles((tokens + most - 1) / most),
        rows((tokens + tiles - 1) / tiles),
        least(std::max<std::int64_t>(1, grain / (rows * width))) {}

  /// `work(tile, scratch)` for every tile; a thread's scratch has `scratch_bytes`.
  template <class Work>
  void for_each(std::size_t scratch_bytes, const Work& work) const {
    at::parallel_for(0, sequences * tiles, least, [&](std::int64_t begin, std::int64_t end) {
      kernels::AlignedBuffer<std::byte> scratch(scratch_bytes);
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t first = item % tiles * rows;
        work(Tile{item / tiles, item, first, std::min(rows, tokens - first)}, scratch.data());
      }
    });
  }

  std::int64_t sequences, tokens, tiles, rows, least;
};

template <class T>
AttentionForward hydra_forward_of(const AttentionInputs& in, const HydraSums& family) {
  const Tensor q = with_token_rows(in.q);
  Tensor k = with_token_rows(in.k);
  Tensor v = with_token_rows(in.v);
  if (token_stride(k) != token_stride(v)) {  // the kernel reads both by one stride
    k = empty_token_rows(k).copy_(k);
    v = empty_token_rows(v).copy_(v);
  }
  const std::int64_t images = q.size(0);
  const std::int64_t tokens = q.size(2);
  const std::int64_t dim = q.size(1) * q.size(3);
  // Of 64 tokens: q, k and v of 768 features in float32 are half a megabyte, in an L2 cache.
  const Tiling tiling(images, tokens, 64, dim, 1 << 15);
  const Tensor y = empty_token_rows(q);
  T* const values = static_cast<T*>(y.mutable_data_ptr());
  kernels::AlignedBuffer<float> sums(static_cast<std::size_t>(images * tiling.tiles * dim));

  tiling.for_each(0, [&](const Tile& tile, std::byte*) {
    const auto begin_of = [&](const Tensor& x) {
      return static_cast<const T*>(x.const_data_ptr()) + tile.sequence * x.stride(0) +
             tile.first * token_stride(x);
    };
    hydra::ProjectParams<T> p{};
    p.q = begin_of(q);
    p.q_stride = token_stride(q);
    p.query_rows = tile.rows;
    p.k = begin_of(k);
    p.v = begin_of(v);
    p.stride = token_stride(k);
    p.rows = tile.rows;
    p.dim = dim;
    p.kernel = family.kernel();
    p.weights = family.weights().from(tile.first);
    p.q_hat = values + (tile.sequence * tokens + tile.first) * dim;  // y's place, until c is known
    p.q_hat_stride = dim;
    p.sum = sums.data() + tile.index * dim;
    hydra::project(p);
  });

  const Tensor c = at::empty({images, dim}, q.options().dtype(at::kFloat));
  for (std::int64_t image = 0; image < images; ++image)
    hydra::combine(sums.data() + image * tiling.tiles * dim, tiling.tiles, dim, 1, nullptr,
                   c.mutable_data_ptr<float>() + image * dim);
  const Tensor g = in.feature_scale ? c * in.feature_scale->to(at::kFloat) : c;
  const float* const global = g.const_data_ptr<float>();

  tiling.for_each(0, [&](const Tile& tile, std::byte*) {
    T* const place = values + (tile.sequence * tokens + tile.first) * dim;
    hydra::gate(
        hydra::GateParams<T>{place, dim, global + tile.sequence * dim, tile.rows, dim, place, dim});
  });
  return {y, c};
}

AttentionForward hydra_on_cpu(const AttentionInputs& in, const HydraSums& family) {
  if (in.q.numel() > 0 && in.q.scalar_type() == at::kFloat)
    return hydra_forward_of<float>(in, family);
  if (in.q.numel() > 0 && in.q.scalar_type() == at::kBFloat16)
    return hydra_forward_of<kernels::BFloat16>(in, family);
  return family.formula(in);
}

/// x (B, H, N, w), or a copy of it, with the values of a head side by side.
Tensor with_head_rows(const Tensor& x) {
  return x.size(3) <= 1 || x.stride(3) == 1 ? x : x.contiguous();
}

template <class T>
AttentionForward linear_forward_of(const AttentionInputs& in, bool save, const LinearSums& family) {
  const Tensor q = with_head_rows(in.q), k = with_head_rows(in.k), v = with_head_rows(in.v);
  const Tensor y = empty_token_rows(v);
  const Tensor saved = save ? family.empty_sums(in) : Tensor();  // S, z and M of all heads in turn
  float* const state = save ? saved.mutable_data_ptr<float>() : nullptr;

  const std::int64_t num_heads = q.size(1);
  const std::int64_t heads = q.size(0) * num_heads;
  const linear::Shape shape{1, q.size(3), v.size(3), family.rule()};  // one head's
  const std::int64_t dim = shape.head_dim;
  const std::int64_t features = shape.features();
  // Of 512 tokens: reading and writing a tile's S of 128 x 64 costs a tenth of making it.
  const Tiling tiling(heads, q.size(2), 512, shape.width, 1 << 12);
  const std::size_t scratch_bytes = linear::scratch_bytes<T>(shape, tiling.rows);
  const std::size_t sums_size = linear::sums_size(shape);
  kernels::AlignedBuffer<float> sums(static_cast<std::size_t>(heads * tiling.tiles) * sums_size);
  // Every head's state begins on a cache line.
  const std::size_t state_stride = (linear::state_bytes<T>(shape) + 63) / 64 * 64;
  kernels::AlignedBuffer<std::byte> states(static_cast<std::size_t>(heads) * state_stride);
  const auto state_of = [&](std::int64_t head) {
    return states.data() + static_cast<std::size_t>(head) * state_stride;
  };
  const auto begin_of = [&](const Tensor& x, const Tile& tile) {
    return static_cast<const T*>(x.const_data_ptr()) + tile.sequence / num_heads * x.stride(0) +
           tile.sequence % num_heads * x.stride(1) + tile.first * x.stride(2);
  };

  tiling.for_each(scratch_bytes, [&](const Tile& tile, std::byte* scratch) {
    linear::AccumulateParams<T> p{};
    p.shape = shape;
    p.k = begin_of(k, tile);
    p.k_stride = k.stride(2);
    p.v = begin_of(v, tile);
    p.v_stride = v.stride(2);
    p.rows = tile.rows;
    p.weights = family.weights().from(tile.first);
    p.sums = sums.data() + static_cast<std::size_t>(tile.index) * sums_size;
    p.scratch = scratch;
    linear::clear(shape, p.sums);
    linear::accumulate(p);
  });

  at::parallel_for(0, heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      linear::Sums<float> combined{};
      if (save)
        combined = {state + head * features * dim, state + (heads * dim + head) * features,
                    state + (heads * (dim + 1) + head) * features};
      linear::combine(linear::CombineParams<T>{
          shape, sums.data() + static_cast<std::size_t>(head * tiling.tiles) * sums_size,
          tiling.tiles, 0, 1, state_of(head), combined});
    }
  });

  T* const values = static_cast<T*>(y.mutable_data_ptr());
  tiling.for_each(scratch_bytes, [&](const Tile& tile, std::byte* scratch) {
    linear::ReadOutParams<T> p{};
    p.shape = shape;
    p.q = begin_of(q, tile);
    p.q_stride = q.stride(2);
    p.rows = tile.rows;
    p.state = state_of(tile.sequence);
    p.y = values + tile.sequence / num_heads * y.stride(0) +
          tile.sequence % num_heads * y.stride(1) + tile.first * y.stride(2);
    p.y_stride = y.stride(2);
    p.scratch = scratch;
    linear::read_out(p);
  });
  return {y, saved};
}

AttentionForward linear_on_cpu(const AttentionInputs& in, bool save, const LinearSums& family) {
  const bool empty = in.q.numel() == 0 || in.v.numel() == 0;
  if (!empty && in.q.scalar_type() == at::kFloat) return linear_forward_of<float>(in, save, family);
  if (!empty && in.q.scalar_type() == at::kBFloat16)
    return linear_forward_of<kernels::BFloat16>(in, save, family);
  return family.formula(in);
}

[[maybe_unused]] const bool kKernels = (kernels_of(at::kCPU) = {hydra_on_cpu, linear_on_cpu}, true);

}  // namespace
}  // namespace hydrascope::model::ops
