// The naive twin of linear_attention.h: every weight of every pair of tokens by itself, in float64.
#pragma once

#include "kernels/linear_attention/linear_attention.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::kernels::linear_attention {

inline constexpr Feature kAllFeatures[] = {
    Feature::elu_plus_one, Feature::relu,         Feature::unit,         Feature::exp,
    Feature::exp_pair,     Feature::softmax_pair, Feature::softmax_both, Feature::exp_centred};
inline std::string name_of(Feature feature) {
  return "map " + std::to_string(static_cast<int>(feature));
}
/// As the mechanisms have it.
inline Shape shape_of(Feature feature, std::int64_t heads, std::int64_t width,
                      std::int64_t head_dim) {
  const Normaliser rule = feature == Feature::unit ? Normaliser::none : Normaliser::add_eps;
  return {heads, width, head_dim, feature, rule, 1e-6F, 1e-6F};
}

/// All tokens of one image.
template <class T>
struct Tokens {
  Shape shape;
  const T* q;  ///< (queries, H * w)
  std::int64_t q_stride;
  std::int64_t queries;
  const T* k;  ///< (keys, H * w)
  std::int64_t k_stride;
  const T* v;  ///< (keys, H * d)
  std::int64_t v_stride;
  std::int64_t keys;
  std::int64_t num_prefix;
  float prefix_weight;
  float patch_weight;
};

struct Mixed {
  std::vector<double> y;          ///< (H * d)
  std::vector<double> magnitude;  ///< the same sums with all terms positive: what errors scale with
  double largest_exponent = 0;    ///< |U| + |W|, what the exponents' own rounding scales with
};

/// What `accumulate`, `combine` and `read_out` leave in row `query` of y, unrounded:
///   y = sum_j w_j (sum_f a_f b_jf) v_j / m
/// with exponents U + W added before anything is raised to a power, so that nothing here depends on
/// how the kernel keeps them from overflowing.
template <class T>
Mixed linear_attention_reference(const Tokens<T>& tokens, std::int64_t query);
extern template Mixed linear_attention_reference(const Tokens<float>&, std::int64_t);
extern template Mixed linear_attention_reference(const Tokens<BFloat16>&, std::int64_t);
extern template Mixed linear_attention_reference(const Tokens<Float16>&, std::int64_t);
extern template Mixed linear_attention_reference(const Tokens<double>&, std::int64_t);

struct Gradients {
  std::vector<double> q;            ///< (queries, H * w)
  std::vector<double> k;            ///< (keys, H * w)
  std::vector<double> v;            ///< (keys, H * d)
  std::vector<double> q_magnitude;  ///< the same sums with all terms positive
  std::vector<double> k_magnitude;
  std::vector<double> v_magnitude;
  double largest_exponent = 0;  ///< |U| + |W|
};

/// Reverse mode of `linear_attention_reference` for all queries, pair by pair, with
/// P_ijf = w_j a_if b_jf and A_ij = sum_f P_ijf / m_i (maps with exponents: a b = exp(U + W)):
///   dv_j   = sum_i A_ij g_i                    dA_ij = g_i . v_j - g_i . y_i  (without normaliser:
///   dU_if  = sum_j P_ijf dA_ij / m_i           g_i . v_j)
///   dW_jf  = sum_i P_ijf dA_ij / m_i           other maps: da, db, P without the factor itself
///   dq, dk = J^T of the map
/// Where a map is not differentiable: relu' (0) = 0 as elu' (0) = 1; equal maxima of exp_centred
/// share its gradient evenly; a row of `unit` shorter than unit_eps is a constant, as the model's
/// normalisation has it. `grad_y` (queries, H * d).
template <class T>
Gradients linear_attention_backward_reference(const Tokens<T>& tokens, const T* grad_y,
                                              std::int64_t grad_y_stride);
extern template Gradients linear_attention_backward_reference(const Tokens<float>&, const float*,
                                                              std::int64_t);
extern template Gradients linear_attention_backward_reference(const Tokens<BFloat16>&,
                                                              const BFloat16*, std::int64_t);
extern template Gradients linear_attention_backward_reference(const Tokens<Float16>&,
                                                              const Float16*, std::int64_t);
extern template Gradients linear_attention_backward_reference(const Tokens<double>&, const double*,
                                                              std::int64_t);

}  // namespace hydrascope::kernels::linear_attention
