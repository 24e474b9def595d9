#include "model/inference/cpu/token_reduction.h"

#include "kernels/attention_map/attention_map.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hydrascope::model::inference {
namespace {

namespace attention_map = kernels::attention_map;

/// What the tokens of a tile give to the class token: scores of each head or, of Hydra, heat.
template <class T>
void score_tokens(const PackedNetwork& network, const ImageGeometry::TokenWeights& weights,
                  std::size_t layer, const Tile& t, Workspace<T>& work) {
  const PackedBlock& block = network.blocks[layer];
  const std::int64_t dim = network.embed_dim;
  const std::int64_t heads = network.num_heads;
  const T* query = work.queries({t.image, 0, 0, 1});
  const T* keys = work.stored_keys(layer, t);
  const std::int64_t stride = block.key_value.out();
  const std::int64_t prefix = std::clamp<std::int64_t>(network.num_prefix - t.first, 0, t.rows);
  float* scores = work.scores.data() + t.image * heads * work.num_tokens + t.first;
  if (const auto* hydra = std::get_if<HydraLayer>(&block.mixing)) {
    attention_map::hydra_map(attention_map::HydraMapParams<T>{
        work.class_weight.data() + t.image * dim, keys, keys + block.key_width(dim), stride, t.rows,
        dim, hydra->kernel, prefix, weights.prefix, weights.patch,
        attention_map::HydraMeasure::squares,
        work.heat.data() + t.image * work.num_tokens + t.first});
  } else if (const auto* linear = std::get_if<LinearLayer>(&block.mixing)) {
    attention_map::linear_scores(attention_map::LinearScoresParams<T>{
        linear->shape, query, keys, stride, t.rows, prefix, weights.prefix, weights.patch, scores,
        work.num_tokens});
  } else {
    attention_map::softmax_scores(attention_map::SoftmaxScoresParams<T>{
        query, keys, stride, t.rows, heads, dim / heads, scores, work.num_tokens});
  }
}

/// Scores (H, N) of all tokens -> heat (N): the mean over heads of the class token's attention.
/// Hydra's heat is already there.
void heat_from_scores(const MixingLayer& mixing, float* scores, std::int64_t num_heads,
                      std::int64_t num_tokens, float* heat) {
  if (std::holds_alternative<HydraLayer>(mixing)) return;
  const auto* linear = std::get_if<LinearLayer>(&mixing);
  attention_map::Weights rule = attention_map::Weights::softmax;
  float eps = 0;
  if (linear != nullptr && !kernels::linear_attention::is_exponential(linear->shape.feature)) {
    const bool sums = linear->shape.normaliser == kernels::linear_attention::Normaliser::add_eps;
    rule = sums ? attention_map::Weights::over_sum : attention_map::Weights::raw;
    eps = linear->shape.eps;
  }
  attention_map::normalise(scores, num_tokens, num_heads, num_tokens, rule, eps);
  attention_map::mean_over_heads(scores, num_tokens, num_heads, num_tokens, heat);
}

/// Ascending indices of the `patches` tokens of greatest |heat| among num_prefix .. num_tokens. order:
/// room for num_tokens - num_prefix. Changes `heat`.
void best_tokens(float* heat, std::int64_t num_prefix, std::int64_t num_tokens,
                 std::int64_t patches, std::int32_t* order) {
  // Signed maps rank by size; NaN has no order.
  std::transform(heat, heat + num_tokens, heat,
                 [](float value) { return std::isnan(value) ? -1.0F : std::abs(value); });
  std::int32_t* end = order + (num_tokens - num_prefix);
  std::iota(order, end, static_cast<std::int32_t>(num_prefix));
  std::nth_element(order, order + patches, end, [heat](std::int32_t a, std::int32_t b) {
    return heat[a] != heat[b] ? heat[a] > heat[b] : a < b;
  });
  std::sort(order, order + patches);
}

/// The class token's query in float32, times the feature scale.
template <class T>
void weigh_features(const HydraLayer& hydra, std::int64_t dim, std::int64_t image,
                    Workspace<T>& work) {
  const T* query = work.queries({image, 0, 0, 1});
  float* weight = work.class_weight.data() + image * dim;
  for (std::int64_t i = 0; i < dim; ++i)
    weight[i] =
        static_cast<float>(query[i]) *
        (hydra.feature_scale.empty() ? 1.0F : hydra.feature_scale[static_cast<std::size_t>(i)]);
}

/// Moves the best tokens of an image to the front, in their order.
template <class T>
void keep_best(const PackedNetwork& network, std::size_t layer, std::int64_t image,
               Workspace<T>& work) {
  const PackedBlock& block = network.blocks[layer];
  const std::int64_t dim = network.embed_dim;
  const std::int64_t tokens = work.num_tokens;
  const std::int64_t prefix = network.num_prefix;
  float* heat = work.heat.data() + image * tokens;
  std::int32_t* order = work.order.data() + image * tokens;
  heat_from_scores(block.mixing, work.scores.data() + image * network.num_heads * tokens,
                   network.num_heads, tokens, heat);
  best_tokens(heat, prefix, tokens, work.reduction->patches, order);
  const Tile whole{image, 0, 0, tokens};
  T* x = work.tokens(whole);
  T* q = work.queries(whole);
  const std::int64_t stride = work.query_stride;
  for (std::int64_t i = 0; i < work.reduction->patches; ++i) {
    if (order[i] == prefix + i) continue;  // already there
    std::copy_n(x + order[i] * dim, dim, x + (prefix + i) * dim);
    std::copy_n(q + order[i] * stride, block.query_width(), q + (prefix + i) * stride);
  }
}

}  // namespace

template <class T>
void drop_tokens(const PackedNetwork& network, const ImageGeometry::TokenWeights& weights,
                 std::size_t layer, std::int64_t images, Workspace<T>& work,
                 kernels::device::ThreadTeam& team) {
  if (const auto* hydra = std::get_if<HydraLayer>(&network.blocks[layer].mixing)) {
    for (std::int64_t image = 0; image < images; ++image)
      weigh_features(*hydra, network.embed_dim, image, work);
  }
  const auto score = [&](std::int64_t item, int) {
    score_tokens(network, weights, layer, tile_of(item, work.whole), work);
  };
  team.run(images * work.whole.num_tiles(), score);
  const auto keep = [&](std::int64_t image, int) { keep_best(network, layer, image, work); };
  team.run(images, keep);
}

template void drop_tokens(const PackedNetwork&, const ImageGeometry::TokenWeights&, std::size_t,
                          std::int64_t, Workspace<float>&, kernels::device::ThreadTeam&);
template void drop_tokens(const PackedNetwork&, const ImageGeometry::TokenWeights&, std::size_t,
                          std::int64_t, Workspace<kernels::BFloat16>&,
                          kernels::device::ThreadTeam&);

}  // namespace hydrascope::model::inference
