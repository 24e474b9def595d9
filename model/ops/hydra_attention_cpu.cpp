// Hydra attention on the CPU: kernels/hydra over tiles of tokens, one pass for c and one for y.
// Tiles depend on the number of tokens alone and are summed in their order, so a result depends
// neither on the batch nor on the number of threads.
#include "kernels/hydra/hydra.h"
#include "kernels/vector/aligned_buffer.h"
#include "model/ops/hydra_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>

namespace hydrascope::model::ops {
namespace {

using at::Tensor;
namespace hydra = kernels::hydra;

/// Tokens per tile: q, k and v of 768 features in float32 are half a megabyte, in an L2 cache.
constexpr std::int64_t kTileTokens = 64;
/// Values a thread takes at least: below, waking it costs more than it saves.
constexpr std::int64_t kGrainValues = 1 << 15;

template <class T>
AttentionForward hydra_forward_of(const AttentionInputs& in, const HydraOptions& options) {
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
  const std::int64_t tiles = (tokens + kTileTokens - 1) / kTileTokens;
  const std::int64_t tile_rows = (tokens + tiles - 1) / tiles;
  const Tensor y = empty_token_rows(q);
  T* const values = static_cast<T*>(y.mutable_data_ptr());
  kernels::AlignedBuffer<float> sums(static_cast<std::size_t>(images * tiles * dim));
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainValues / (tile_rows * dim));

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
    p.kernel = options.kernel;
    p.weights = options.weights.from(first);
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

AttentionForward hydra_on_cpu(const AttentionInputs& in, bool save, const HydraOptions& options) {
  if (in.q.numel() > 0 && in.q.scalar_type() == at::kFloat)
    return hydra_forward_of<float>(in, options);
  if (in.q.numel() > 0 && in.q.scalar_type() == at::kBFloat16)
    return hydra_forward_of<kernels::BFloat16>(in, options);
  return hydra_formula(in, save, options);
}

}  // namespace

TORCH_LIBRARY_IMPL(hydrascope, CPU, library) {
  library.impl("_hydra_attention_forward", Operators<HydraOptions>::forward<hydra_on_cpu>);
}

}  // namespace hydrascope::model::ops
