// What each token gives to one query's output (the class token's), without the N x N matrix.
//
// Equations, for the query of one token and the keys and values of all tokens t:
//   hydra_map       heat_t = sum_f w_f c_t (k_tf / r(k_t)) v_tf, with w = qh * gradient: the token's
//                   contribution to gradient . y; or, by squares, |qh * c_t kh_t * v_t|^2 with w = qh
//                   (Bolya et al. 2022, arXiv 2209.07484, equation 8; kernels/hydra/hydra.h)
//   softmax_scores  s_ht = q_h . k_th                       (arXiv 1706.03762, equation 1; q scaled)
//   linear_scores   s_ht = phi(q_h) . phi(k_th) c_t, for exponential maps its logarithm
//                   log sum_f exp(u_f(q_h) + u_f(k_th)) + log c_t, which cannot overflow
//                   (arXiv 2006.16236, equation 4; kernels/linear_attention/linear_attention.h)
//   normalise       scores of all tokens -> weights A_ht: softmax over t (also right for logarithms of linear
//                   scores), s / (sum_t s + eps), or s as it is
//   value_heat      heat_t = sum_h A_ht (g_h . v_th): with g the gradient at y, contributions that sum to
//                   g . y
//   mean_over_heads heat_t = (1 / H) sum_h A_ht
#pragma once

#include "kernels/hydra/hydra.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::attention_map {

enum class HydraMeasure { sum, squares };

template <class T>
struct HydraMapParams {
  const float* weight;  ///< w (dim)
  const T* k;           ///< (rows, dim) each, rows `stride` apart
  const T* v;
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t dim;
  hydra::Kernel kernel;
  std::int64_t num_prefix;  ///< leading rows with c_t = prefix_weight, the others' is patch_weight
  float prefix_weight;
  float patch_weight;
  HydraMeasure measure;
  float* heat;  ///< (rows)
};
void hydra_map(const HydraMapParams<float>& params);
void hydra_map(const HydraMapParams<BFloat16>& params);

template <class T>
struct SoftmaxScoresParams {
  const T* q;  ///< (H * d), scaled
  const T* k;  ///< (rows, H * d), rows `k_stride` apart
  std::int64_t k_stride;
  std::int64_t rows;
  std::int64_t num_heads;
  std::int64_t head_dim;
  float* scores;  ///< (H, rows), heads `score_stride` apart
  std::int64_t score_stride;
};
void softmax_scores(const SoftmaxScoresParams<float>& params);
void softmax_scores(const SoftmaxScoresParams<BFloat16>& params);

template <class T>
struct LinearScoresParams {
  linear_attention::Shape shape;
  const T* q;  ///< (H * w)
  const T* k;  ///< (rows, H * w), rows `k_stride` apart
  std::int64_t k_stride;
  std::int64_t rows;
  std::int64_t num_prefix;  ///< as in HydraMapParams
  float prefix_weight;
  float patch_weight;
  float* scores;  ///< (H, rows), heads `score_stride` apart
  std::int64_t score_stride;
};
void linear_scores(const LinearScoresParams<float>& params);
void linear_scores(const LinearScoresParams<BFloat16>& params);

enum class Weights {
  softmax,   ///< exp(s - max) / sum
  over_sum,  ///< s / (sum s + eps)
  raw        ///< s
};
/// In place, every head over all tokens.
void normalise(float* scores, std::int64_t score_stride, std::int64_t num_heads,
               std::int64_t num_tokens, Weights rule, float eps);

template <class T>
struct ValueHeatParams {
  const float* weights;  ///< (H, rows), heads `weight_stride` apart
  std::int64_t weight_stride;
  const float* gradient;  ///< g (H * d)
  const T* v;             ///< (rows, H * d), rows `v_stride` apart
  std::int64_t v_stride;
  std::int64_t rows;
  std::int64_t num_heads;
  std::int64_t head_dim;
  float* heat;  ///< (rows)
};
void value_heat(const ValueHeatParams<float>& params);
void value_heat(const ValueHeatParams<BFloat16>& params);

/// weights (H, rows), heads `weight_stride` apart -> heat (rows).
void mean_over_heads(const float* weights, std::int64_t weight_stride, std::int64_t num_heads,
                     std::int64_t rows, float* heat);

}  // namespace hydrascope::kernels::attention_map
