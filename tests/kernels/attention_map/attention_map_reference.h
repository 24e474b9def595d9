// The naive twins of attention_map.h: one token after the other, in float64.
#pragma once

#include "kernels/attention_map/attention_map.h"

#include <vector>

namespace hydrascope::kernels::attention_map {

/// Unrounded results, rows of heads side by side, and what the errors of float32 scale with.
struct Expected {
  std::vector<double> values;
  std::vector<double> magnitudes;  ///< the same sums with all terms positive
};

/// (rows)
template <class T>
Expected hydra_map_reference(const HydraMapParams<T>& params);
extern template Expected hydra_map_reference(const HydraMapParams<float>&);
extern template Expected hydra_map_reference(const HydraMapParams<BFloat16>&);

/// (H, rows)
template <class T>
Expected softmax_scores_reference(const SoftmaxScoresParams<T>& params);
extern template Expected softmax_scores_reference(const SoftmaxScoresParams<float>&);
extern template Expected softmax_scores_reference(const SoftmaxScoresParams<BFloat16>&);

/// (H, rows); a logarithm's magnitude is 1 and the size of all that its exponents are made of.
template <class T>
Expected linear_scores_reference(const LinearScoresParams<T>& params);
extern template Expected linear_scores_reference(const LinearScoresParams<float>&);
extern template Expected linear_scores_reference(const LinearScoresParams<BFloat16>&);

/// (H, tokens)
Expected normalise_reference(const float* scores, std::int64_t score_stride, std::int64_t num_heads,
                             std::int64_t num_tokens, Weights rule, float eps);

/// (rows)
Expected mean_over_heads_reference(const float* weights, std::int64_t weight_stride,
                                   std::int64_t num_heads, std::int64_t rows);

}  // namespace hydrascope::kernels::attention_map
