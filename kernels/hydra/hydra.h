// Hydra attention (Bolya et al. 2022, arXiv 2209.07484, equation 8; not the state-space model of
// that name) in the three steps of a streamed block:
//   project   qh_t = q_t / r(q_t);  c_tile = sum over the tile's tokens of w_t (k_t / r(k_t)) * v_t
//   combine   g = scale * sum of all tiles' c
//   gate      y_t = qh_t * g, or (add_gated) y_t += (q_t / r(q_t)) * g of queries as they are
// r is a norm over the whole row of D features, at least eps. Deviations from the paper: eps, the token
// weights w (reason: model/attention/token_scale.h) and an optional per-feature scale.
//
// Tensors: q, k, v, q_hat, y in T, rows contiguous, strides and alignment free, any D >= 1 and
//   any number of rows; sums, g, feature_scale in float32. Only q_hat = q
//   and y = q_hat may overlap.
// Traffic of a tile of n rows: project reads 3 n D and writes n D elements (q and k twice, the
//   second time from L1), gate reads and writes n D; 8 n D and n D FLOPs. A tile lies in L2.
//   float32 is bound by L2; bfloat16 by its conversions (10 of 15 instructions of gate round).
// Numerics: float32. Norms are summed in an order that depends on the vectors' length, so
//   instruction sets differ in last bits; sums over tokens go in the order of the rows, tiles in
//   theirs. 1/r is formed once per row and multiplied. One rounding to T when stored. NaN in k
//   reaches the whole c, in v its feature of c, in q its row.
// Tolerance, of the largest value: 1e-6 (float32) or 2^-8 (bfloat16); c and g 2e-6 sqrt(n) and 1e-5.
// Test: tests/kernels/hydra/hydra_test.cpp; twin: hydra_reference.h beside it.
#pragma once

#include "kernels/token_weights.h"
#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::hydra {

enum class Norm {
  l2,   ///< |x|
  l1,   ///< sum |x_f|
  none  ///< 1
};
/// r = max(norm, eps) of a row.
struct NormRule {
  Norm norm = Norm::l2;
  float eps = 1e-6F;
};
struct Kernel {
  NormRule query;
  NormRule key;
};

template <class T>
struct ProjectParams {
  const T* q;  ///< (query_rows, dim), rows `q_stride` apart
  std::int64_t q_stride;
  /// Leading rows that have a query, at most `rows`: the last block needs few.
  std::int64_t query_rows;
  const T* k;  ///< (rows, dim) each, rows `stride` apart
  const T* v;
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t dim;
  Kernel kernel;
  TokenWeights weights;  ///< w of this tile's rows, as floats
  T* q_hat;              ///< (query_rows, dim), rows `q_hat_stride` apart; may be q
  std::int64_t q_hat_stride;
  float* sum;  ///< (dim): set to the tile's c
};
/// Sums over tokens in float32, in the order of the rows.
void project(const ProjectParams<float>& params);
void project(const ProjectParams<BFloat16>& params);

/// g (dim) = scale * (sums[0] + sums[1] + ...), in that order; feature_scale (dim) may be null.
void combine(const float* sums, std::int64_t count, std::int64_t dim, float scale,
             const float* feature_scale, float* g);

template <class T>
struct GateParams {
  const T* q_hat;  ///< (rows, dim), rows `q_hat_stride` apart
  std::int64_t q_hat_stride;
  const float* g;  ///< (dim)
  std::int64_t rows;
  std::int64_t dim;
  T* y;  ///< (rows, dim), rows `y_stride` apart; may be q_hat
  std::int64_t y_stride;
};
/// y = q_hat * g.
void gate(const GateParams<float>& params);
void gate(const GateParams<BFloat16>& params);

template <class T>
struct AddGatedParams {
  const T* q;  ///< (rows, dim), rows `q_stride` apart
  std::int64_t q_stride;
  std::int64_t rows;
  std::int64_t dim;
  NormRule rule;
  const float* g;  ///< (dim)
  T* y;            ///< (rows, dim), rows `y_stride` apart; not q
  std::int64_t y_stride;
};
/// y += q / r(q) * g, rounded once.
void add_gated(const AddGatedParams<float>& params);
void add_gated(const AddGatedParams<BFloat16>& params);

}  // namespace hydrascope::kernels::hydra
