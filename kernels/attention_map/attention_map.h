// What each token gives to one query's output (the class token's), without the N x N matrix.
//
// Equations, for the query of one token and the keys and values of all tokens t:
//   hydra_map       heat_t = sum_f w_f c_t (k_tf / r(k_t)) v_tf, with w = qh * gradient: the
//                   token's contribution to gradient . y; or, by squares, |qh * c_t kh_t * v_t|^2
//                   with w = qh (Bolya et al. 2022, arXiv 2209.07484, equation 8;
//                   kernels/hydra/hydra.h)
//   softmax_scores  s_ht = q_h . k_th            (arXiv 1706.03762, equation 1; q scaled)
//   linear_scores   s_ht = phi(q_h) . phi(k_th) c_t, for exponential maps its logarithm
//                   log sum_f exp(u_f(q_h) + u_f(k_th)) + log c_t, which cannot overflow
//                   (arXiv 2006.16236, equation 4; kernels/linear_attention/linear_attention.h)
//   normalise       scores of all tokens -> weights A_ht: softmax over t (also right for logarithms
//                   of linear scores), s / (sum_t s + eps), or s as it is
//   mean_over_heads heat_t = (1 / H) sum_h A_ht
// u_f are the exponents of linear_attention.h's Feature, c_t its weights of tokens, r hydra.h's
// norm with its epsilon. Weights are exactly those of the attention kernels but for rounding: sum_t
// A_ht v_th is what softmax_attention's attend and linear_attention's read_out give that query
// (normaliser add_eps: over_sum with the shape's eps, none: raw, exponential maps: softmax).
//
// Tensors: q, k, v in T, everything else float32; rows and heads contiguous, their strides and all
//   alignment free; any rows >= 0, any dim, H, w, d >= 1. k and v are read, scores and heat
//   written; normalise works in place, nothing else may overlap. Tiles of tokens go one by one
//   (scores and heat pointing at the tile's first token), but normalise needs all tokens of a head.
// Traffic and FLOPs (exponentials count as one), for n rows:
//   hydra_map       2 n D elements of T (25 MB for 8161 tokens of ViT-B in bfloat16), 5 n D FLOPs
//   softmax_scores  n D elements of T, 2 n D FLOPs
//   linear_scores   n H w elements of T, 2 n H F FLOPs, of them n H F exponentials for exponential
//                   maps (twice with a softmax in the map)
//   normalise       n H floats read three times and written twice (a head stays in L2), n H
//                   exponentials for softmax
//   All but the maps with exponentials are bound by L2 or memory; none keeps more than a row.
// Numerics: float32; sums within a row in an order that depends on the vectors' length, so
//   instruction sets differ in last bits, but a row's result depends on no other row and on no
//   tiling. hydra_map multiplies by 1/r (its square) after the sum. Features are not rounded to T,
//   as read_out's are. normalise subtracts the maximum, adds blocks of 1024 tokens, multiplies by
//   the inverse; weights below 2^-126 are zero. linear_scores of exponential maps: an error of the
//   largest exponent's rounding; weights c_t must not be negative, 0 gives -infinity, as does a key
//   whose features are all zero. NaN in k or v reaches its token (and head), in q its head, in a
//   score its head of normalise; a head of -infinity alone, or with +infinity, becomes NaN.
// Preconditions (not checked): the sizes above, and H >= 1 for mean_over_heads.
// Test: tests/kernels/attention_map/attention_map_test.cpp against the twins of
//   attention_map_reference.h, attention_map_identities_test.cpp against the attention kernels.
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

/// weights (H, rows), heads `weight_stride` apart -> heat (rows).
void mean_over_heads(const float* weights, std::int64_t weight_stride, std::int64_t num_heads,
                     std::int64_t rows, float* heat);

}  // namespace hydrascope::kernels::attention_map
