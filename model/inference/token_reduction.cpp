#include "model/inference/token_reduction.h"

#include "kernels/attention_map/attention_map.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hydrascope::model::inference {

namespace attention_map = kernels::attention_map;

template <class T>
void score_tokens(const ScoreParams<T>& p) {
  if (const auto* hydra = std::get_if<HydraLayer>(p.mixing)) {
    attention_map::hydra_map(attention_map::HydraMapParams<T>{
        p.class_weight, p.keys, p.values, p.stride, p.rows, p.num_heads * p.head_dim, hydra->kernel,
        p.num_prefix, p.weights.prefix, p.weights.patch, attention_map::HydraMeasure::squares,
        p.heat});
  } else if (const auto* linear = std::get_if<LinearLayer>(p.mixing)) {
    attention_map::linear_scores(attention_map::LinearScoresParams<T>{
        linear->shape, p.query, p.keys, p.stride, p.rows, p.num_prefix, p.weights.prefix,
        p.weights.patch, p.scores, p.score_stride});
  } else {
    attention_map::softmax_scores(attention_map::SoftmaxScoresParams<T>{
        p.query, p.keys, p.stride, p.rows, p.num_heads, p.head_dim, p.scores, p.score_stride});
  }
}

template void score_tokens(const ScoreParams<float>&);
template void score_tokens(const ScoreParams<kernels::BFloat16>&);

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

}  // namespace hydrascope::model::inference
