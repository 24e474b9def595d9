// The naive twin of linear_attention.h: every weight of every pair of tokens by itself, in float64.
#pragma once

#include "kernels/linear_attention/linear_attention.h"

#include <vector>

namespace hydrascope::kernels::linear_attention {

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

}  // namespace hydrascope::kernels::linear_attention
