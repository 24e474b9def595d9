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

/// Tokens per tile: q, k and v of 768 features in float32 are half a megabyte, in an L2 cache.
constexpr std::int64_t kHydraTileTokens = 64;
/// Values a thread takes at least: below, waking it costs more than it saves.
constexpr std::int64_t kHydraGrainValues = 1 << 15;

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
  const std::int64_t tiles = (tokens + kHydraTileTokens - 1) / kHydraTileTokens;
  const std::int64_t tile_rows = (tokens + tiles - 1) / tiles;
  const Tensor y = empty_token_rows(q);
  T* const values = static_cast<T*>(y.mutable_data_ptr());
  kernels::AlignedBuffer<float> sums(static_cast<std::size_t>(images * tiles * dim));
  const std::int64_t grain = std::max<std::int64_t>(1, kHydraGrainValues / (tile_rows * dim));

  // `tile(image, index, first token, tokens)` of every tile.
  const auto for_tiles = [&](const auto& tile) {
    at::parallel_for(0, images * tiles, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t first = item % tiles * tile_rows;
        tile(item / tiles, item, first, std::min(tile_rows, tokens - first));
      }
    });
  };

  for_tiles([&](std::int64_t image, std::int64_t item, std::int64_t first, std::int64_t rows) {
    hydra::ProjectParams<T> p{};
    p.q = tokens_of<T>(q, image) + first * token_stride(q);
    p.q_stride = token_stride(q);
    p.query_rows = rows;
    p.k = tokens_of<T>(k, image) + first * token_stride(k);
    p.v = tokens_of<T>(v, image) + first * token_stride(v);
    p.stride = token_stride(k);
    p.rows = rows;
    p.dim = dim;
    p.kernel = family.kernel();
    p.weights = family.weights().from(first);
    p.q_hat = values + (image * tokens + first) * dim;  // y's place, until c is known
    p.q_hat_stride = dim;
    p.sum = sums.data() + item * dim;
    hydra::project(p);
  });

  const Tensor c = at::empty({images, dim}, q.options().dtype(at::kFloat));
  for (std::int64_t image = 0; image < images; ++image)
    hydra::combine(sums.data() + image * tiles * dim, tiles, dim, 1, nullptr,
                   c.mutable_data_ptr<float>() + image * dim);
  const Tensor g = in.feature_scale ? c * in.feature_scale->to(at::kFloat) : c;
  const float* const global = g.const_data_ptr<float>();

  for_tiles([&](std::int64_t image, std::int64_t, std::int64_t first, std::int64_t rows) {
    T* const place = values + (image * tokens + first) * dim;
    hydra::gate(hydra::GateParams<T>{place, dim, global + image * dim, rows, dim, place, dim});
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

// ---- linear attention

namespace linear = kernels::linear_attention;

/// Tokens per tile: reading and writing its S of 128 x 64 costs a tenth of making it.
constexpr std::int64_t kLinearTileTokens = 512;
/// Values of k a thread takes at least: below, waking it costs more than it saves.
constexpr std::int64_t kLinearGrainValues = 1 << 12;

/// A tile of one head of one image.
struct Tile {
  std::int64_t image;
  std::int64_t head;
  std::int64_t index;  ///< number of its sums: (image * heads + head) * tiles + tile
  std::int64_t first;  ///< token
  std::int64_t rows;
};

/// x (B, H, N, w), or a copy of it, with the values of a head side by side.
Tensor with_head_rows(const Tensor& x) {
  return x.size(3) <= 1 || x.stride(3) == 1 ? x : x.contiguous();
}

template <class T>
class LinearForwardOnCpu {
 public:
  LinearForwardOnCpu(const Tensor& q, const Tensor& k, const Tensor& v, const LinearSums& family)
      : q_(with_head_rows(q)),
        k_(with_head_rows(k)),
        v_(with_head_rows(v)),
        family_(family),
        shape_{1, q.size(3), v.size(3), family.rule()},
        heads_(q.size(1)),
        tokens_(q.size(2)),
        tiles_((tokens_ + kLinearTileTokens - 1) / kLinearTileTokens),
        tile_rows_((tokens_ + tiles_ - 1) / tiles_),
        sums_size_(linear::sums_size(shape_)),
        sums_(static_cast<std::size_t>(q.size(0) * heads_ * tiles_) * sums_size_),
        // Every head's state begins on a cache line.
        state_stride_((linear::state_bytes<T>(shape_) + 63) / 64 * 64),
        states_(static_cast<std::size_t>(q.size(0) * heads_) * state_stride_) {}

  /// `y`: token rows to fill. `state`: null, or memory for S, z and M of all heads in turn.
  void run(const Tensor& y, float* state) {
    sum_keys();
    combine(state);
    read_queries(static_cast<T*>(y.mutable_data_ptr()));
  }

 private:
  /// `work(tile, scratch)` for every tile.
  template <class Work>
  void for_tiles(const Work& work) const {
    const std::int64_t grain =
        std::max<std::int64_t>(1, kLinearGrainValues / (tile_rows_ * shape_.width));
    at::parallel_for(
        0, q_.size(0) * heads_ * tiles_, grain, [&](std::int64_t begin, std::int64_t end) {
          kernels::AlignedBuffer<std::byte> scratch(linear::scratch_bytes<T>(shape_, tile_rows_));
          for (std::int64_t item = begin; item < end; ++item) {
            const std::int64_t first = item % tiles_ * tile_rows_;
            work(Tile{item / tiles_ / heads_, item / tiles_ % heads_, item, first,
                      std::min(tile_rows_, tokens_ - first)},
                 scratch.data());
          }
        });
  }
  static const T* begin_of(const Tensor& x, const Tile& tile) {
    return static_cast<const T*>(x.const_data_ptr()) + tile.image * x.stride(0) +
           tile.head * x.stride(1) + tile.first * x.stride(2);
  }

  void sum_keys() {
    for_tiles([&](const Tile& tile, std::byte* scratch) {
      linear::AccumulateParams<T> p{};
      p.shape = shape_;
      p.k = begin_of(k_, tile);
      p.k_stride = k_.stride(2);
      p.v = begin_of(v_, tile);
      p.v_stride = v_.stride(2);
      p.rows = tile.rows;
      p.weights = family_.weights().from(tile.first);
      p.sums = sums_.data() + static_cast<std::size_t>(tile.index) * sums_size_;
      p.scratch = scratch;
      linear::clear(shape_, p.sums);
      linear::accumulate(p);
    });
  }

  void combine(float* state) {
    const std::int64_t heads = q_.size(0) * heads_;
    const std::int64_t features = shape_.features();
    at::parallel_for(0, heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t head = begin; head < end; ++head) {
        linear::Sums<float> combined{};
        if (state != nullptr)
          combined = {state + head * features * shape_.head_dim,
                      state + (heads * shape_.head_dim + head) * features,
                      state + (heads * (shape_.head_dim + 1) + head) * features};
        linear::combine(linear::CombineParams<T>{
            shape_, sums_.data() + static_cast<std::size_t>(head * tiles_) * sums_size_, tiles_, 0,
            1, states_.data() + static_cast<std::size_t>(head) * state_stride_, combined});
      }
    });
  }

  void read_queries(T* values) const {
    for_tiles([&](const Tile& tile, std::byte* scratch) {
      linear::ReadOutParams<T> p{};
      p.shape = shape_;
      p.q = begin_of(q_, tile);
      p.q_stride = q_.stride(2);
      p.rows = tile.rows;
      p.state = states_.data() +
                static_cast<std::size_t>(tile.image * heads_ + tile.head) * state_stride_;
      p.y_stride = heads_ * shape_.head_dim;
      p.y = values + (tile.image * tokens_ + tile.first) * p.y_stride + tile.head * shape_.head_dim;
      p.scratch = scratch;
      linear::read_out(p);
    });
  }

  Tensor q_, k_, v_;
  const LinearSums& family_;
  linear::Shape shape_;  ///< one head's
  std::int64_t heads_, tokens_, tiles_, tile_rows_;
  std::size_t sums_size_;  ///< floats of a tile
  kernels::AlignedBuffer<float> sums_;
  std::size_t state_stride_;
  kernels::AlignedBuffer<std::byte> states_;
};

template <class T>
AttentionForward linear_forward_of(const AttentionInputs& in, bool save, const LinearSums& family) {
  const Tensor y = empty_token_rows(in.v);
  const Tensor state = save ? family.empty_sums(in) : Tensor();
  LinearForwardOnCpu<T> forward(in.q, in.k, in.v, family);
  forward.run(y, save ? state.mutable_data_ptr<float>() : nullptr);
  return {y, state};
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
