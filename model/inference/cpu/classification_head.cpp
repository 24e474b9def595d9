#include "model/inference/cpu/classification_head.h"

#include "kernels/layer_norm/layer_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace hydrascope::model::inference {
namespace {

using kernels::linear::Epilogue;

void norm(const PackedNetwork& network, float* row) {
  const PackedNorm& last = network.head.norm;
  if (last.empty()) return;
  const std::int64_t dim = network.embed_dim;
  kernels::layer_norm::layer_norm(kernels::layer_norm::LayerNormParams<float>{
      row, dim, 1, dim, last.weight.data(), last.bias.data(), network.layer_norm_eps, row, dim,
      network.rms_norm});
}

template <class T>
void read(const T* from, std::int64_t dim, float* row) {
  for (std::int64_t i = 0; i < dim; ++i) row[i] = static_cast<float>(from[i]);
}

/// Tokens that attention pooling reads at a time.
constexpr std::int64_t kPooledTokens = 32;

/// Attention pooling as in FoldedPool, over the normalised patch tokens -> y (D). Softmax is taken in one
/// pass: sums so far are scaled down when a larger score comes.
template <class T>
void attend(const PackedNetwork& network, const T* tokens, std::int64_t num_tokens, float* room,
            float* y) {
  const PackedPool& pool = *network.head.pool;
  const std::int64_t dim = network.embed_dim;
  const std::int64_t heads = pool.score.out();
  const auto take = [&](std::int64_t count) { return std::exchange(room, room + count); };
  float* const rows = take(kPooledTokens * dim);
  float* const scores = take(kPooledTokens * heads);
  float* const sums = take(heads * dim);
  float* const values = take(heads * dim);
  float* const largest = take(heads);
  float* const totals = take(heads);
  float* const mixed = take(dim);
  float* const hidden = take(network.hidden_dim);
  std::fill_n(sums, heads * dim, 0.0F);
  std::fill_n(totals, heads, 0.0F);
  std::fill_n(largest, heads, -std::numeric_limits<float>::infinity());
  for (std::int64_t first = pool.first; first < num_tokens; first += kPooledTokens) {
    const std::int64_t count = std::min(kPooledTokens, num_tokens - first);
    for (std::int64_t i = 0; i < count; ++i) {
      read(tokens + (first + i) * dim, dim, rows + i * dim);
      norm(network, rows + i * dim);
    }
    apply(pool.score, LinearInput<float>{rows, {}}, count, scores, heads, Epilogue::store);
    for (std::int64_t h = 0; h < heads; ++h) {
      float* const sum = sums + h * dim;
      float most = largest[h];
      for (std::int64_t i = 0; i < count; ++i) most = std::max(most, scores[i * heads + h]);
      const float kept = std::exp(largest[h] - most);
      largest[h] = most;
      totals[h] *= kept;
      for (std::int64_t k = 0; k < dim; ++k) sum[k] *= kept;
      for (std::int64_t i = 0; i < count; ++i) {
        const float weight = std::exp(scores[i * heads + h] - most);
        const float* const row = rows + i * dim;
        totals[h] += weight;
        for (std::int64_t k = 0; k < dim; ++k) sum[k] += weight * row[k];
      }
    }
  }
  for (std::int64_t h = 0; h < heads; ++h) {
    const float share = 1.0F / totals[h];
    for (std::int64_t k = 0; k < dim; ++k) sums[h * dim + k] *= share;
  }
  // All values of all heads' means, of which each head needs its own.
  apply(pool.value, LinearInput<float>{sums, {}}, heads, values, dim, Epilogue::store);
  const std::int64_t width = dim / heads;
  for (std::int64_t h = 0; h < heads; ++h)
    std::copy_n(values + h * dim + h * width, width, mixed + h * width);
  apply(pool.proj, LinearInput<float>{mixed, {}}, 1, y, dim, Epilogue::store);
  kernels::layer_norm::layer_norm(kernels::layer_norm::LayerNormParams<float>{
      y, dim, 1, dim, nullptr, nullptr, network.layer_norm_eps, mixed, dim, network.rms_norm});
  apply(pool.fc1, LinearInput<float>{mixed, {}}, 1, hidden, network.hidden_dim,
        network.gelu ? Epilogue::store : Epilogue::gelu);
  if (network.gelu)
    kernels::gelu::sigmoid_gelu(
        kernels::gelu::SigmoidGeluParams<float>{hidden, network.hidden_dim, *network.gelu, hidden});
  apply(pool.fc2, LinearInput<float>{hidden, {}}, 1, y, dim, Epilogue::add);
}

/// The normalised mean of the patch tokens; `row` is room for one token.
template <class T>
void average(const PackedNetwork& network, const T* tokens, std::int64_t num_tokens, float* row,
             float* pooled) {
  const std::int64_t dim = network.embed_dim;
  std::fill_n(pooled, dim, 0.0F);
  for (std::int64_t index = network.num_prefix; index < num_tokens; ++index) {
    read(tokens + index * dim, dim, row);
    if (!network.head.norm_after_pool) norm(network, row);
    for (std::int64_t i = 0; i < dim; ++i) pooled[i] += row[i];
  }
  const float share = 1.0F / static_cast<float>(num_tokens - network.num_prefix);
  for (std::int64_t i = 0; i < dim; ++i) pooled[i] *= share;
  if (network.head.norm_after_pool) norm(network, pooled);
}

}  // namespace

template <class T>
void pool(const PackedNetwork& network, const T* tokens, std::int64_t num_tokens, float* room,
          float* rows) {
  const PackedHead& head = network.head;
  const std::int64_t dim = network.embed_dim;
  if (head.pool) {
    attend(network, tokens, num_tokens, room, rows);
  } else if (head.average) {
    average(network, tokens, num_tokens, room, rows);
  } else {
    read(tokens, dim, rows);
    norm(network, rows);
  }
  if (head.distilled.out() == 0) return;
  read(tokens + dim, dim, rows + dim);
  norm(network, rows + dim);
}

void classify(const PackedNetwork& network, const float* rows,
              const kernels::linear::Outputs& classes, float* logits) {
  const PackedHead& head = network.head;
  const std::int64_t count = network.num_classes;
  apply(head.classifier, LinearInput<float>{rows, {}}, 1, logits, count, Epilogue::store, classes);
  if (head.distilled.out() == 0) return;
  apply(head.distilled, LinearInput<float>{rows + network.embed_dim, {}}, 1, logits, count,
        Epilogue::add, classes);
  for (std::int64_t i = classes.first; i < classes.end_of(count); ++i) logits[i] *= 0.5F;
}

std::size_t head_room(const PackedNetwork& network) {
  const std::int64_t dim = network.embed_dim;
  if (!network.head.pool) return static_cast<std::size_t>(dim);
  const std::int64_t heads = network.head.pool->score.out();
  return static_cast<std::size_t>((1 + kPooledTokens + 2 * heads) * dim +
                                  (kPooledTokens + 2) * heads + network.hidden_dim);
}

template void pool(const PackedNetwork&, const float*, std::int64_t, float*, float*);
template void pool(const PackedNetwork&, const kernels::BFloat16*, std::int64_t, float*, float*);

}  // namespace hydrascope::model::inference
