// The naive twins of hydra.h and hydra_cuda.h: one token after the other, in float64.
#pragma once

#include "kernels/hydra/hydra.h"

#include <vector>

namespace hydrascope::kernels::hydra {

struct ProjectResult {
  std::vector<double> q_hat;  ///< (query_rows, dim)
  std::vector<double> sum;    ///< (dim)
};

/// What `project` writes, unrounded.
template <class T>
ProjectResult project_reference(const ProjectParams<T>& params);
extern template ProjectResult project_reference(const ProjectParams<float>&);
extern template ProjectResult project_reference(const ProjectParams<BFloat16>&);

std::vector<double> combine_reference(const float* sums, std::int64_t count, std::int64_t dim,
                                      float scale, const float* feature_scale);

/// (rows, dim)
template <class T>
std::vector<double> gate_reference(const T* q_hat, std::int64_t q_hat_stride, const float* g,
                                   std::int64_t rows, std::int64_t dim);
extern template std::vector<double> gate_reference(const float*, std::int64_t, const float*,
                                                   std::int64_t, std::int64_t);
extern template std::vector<double> gate_reference(const BFloat16*, std::int64_t, const float*,
                                                   std::int64_t, std::int64_t);

/// (rows, dim)
template <class T>
std::vector<double> add_gated_reference(const AddGatedParams<T>& params);
extern template std::vector<double> add_gated_reference(const AddGatedParams<float>&);
extern template std::vector<double> add_gated_reference(const AddGatedParams<BFloat16>&);

/// All tokens of one image; T may be double, for differences.
template <class T>
struct Tokens {
  const T* q;  ///< (queries, dim)
  std::int64_t q_stride;
  std::int64_t queries;
  const T* k;  ///< (tokens, dim)
  std::int64_t k_stride;
  const T* v;  ///< (tokens, dim)
  std::int64_t v_stride;
  std::int64_t tokens;
  std::int64_t dim;
  Kernel kernel;
  std::int64_t num_prefix;
  float prefix_weight;
  float patch_weight;
  const float* feature_scale;  ///< (dim) or null
};

/// Unrounded values, and the same sums with all terms positive: what the errors of float32 scale
/// with.
struct Sums {
  std::vector<double> values;
  std::vector<double> magnitudes;
};

/// hydra_cuda.h's `forward` of one image.
struct ForwardResult {
  Sums sum;     ///< c (dim)
  Sums global;  ///< g (dim)
  Sums y;       ///< (queries, dim)
};
template <class T>
ForwardResult forward_reference(const Tokens<T>& tokens);
extern template ForwardResult forward_reference(const Tokens<double>&);
extern template ForwardResult forward_reference(const Tokens<float>&);
extern template ForwardResult forward_reference(const Tokens<BFloat16>&);
extern template ForwardResult forward_reference(const Tokens<Float16>&);

/// hydra_cuda.h's `backward` of one image, of grad_y (queries, dim); where a token with |x| < eps
/// is a constant, its own gradient is zero.
struct BackwardResult {
  Sums grad_q;              ///< (queries, dim)
  Sums grad_k;              ///< (tokens, dim)
  Sums grad_v;              ///< (tokens, dim)
  Sums grad_feature_scale;  ///< (dim)
};
template <class T>
BackwardResult backward_reference(const Tokens<T>& tokens, const T* grad_y,
                                  std::int64_t grad_y_stride);
extern template BackwardResult backward_reference(const Tokens<double>&, const double*,
                                                  std::int64_t);
extern template BackwardResult backward_reference(const Tokens<float>&, const float*, std::int64_t);
extern template BackwardResult backward_reference(const Tokens<BFloat16>&, const BFloat16*,
                                                  std::int64_t);
extern template BackwardResult backward_reference(const Tokens<Float16>&, const Float16*,
                                                  std::int64_t);

}  // namespace hydrascope::kernels::hydra
