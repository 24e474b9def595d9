// The naive twins of hydra.h and hydra_cuda.h: one token after the other, in float64.
#pragma once

#include "kernels/hydra/hydra.h"
#include "tests/kernels/twin.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace hydrascope::kernels::hydra {

using twin::Sums;
using twin::widened;

struct ProjectResult {
  std::vector<double> q_hat;  ///< (query_rows, dim)
  std::vector<double> sum;    ///< (dim)
};

/// All tokens of one image.
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
  TokenWeights weights;
  const float* feature_scale;  ///< (dim) or null
};

/// hydra_cuda.h's `forward` of one image.
struct ForwardResult {
  Sums sum;     ///< c (dim)
  Sums global;  ///< g (dim)
  Sums y;       ///< (queries, dim)
};

/// r of a row.
template <class T>
double divisor(const T* x, std::int64_t dim, const NormRule& rule) {
  if (rule.norm == Norm::none) return 1;
  double sum = 0;
  for (std::int64_t f = 0; f < dim; ++f)
    sum += rule.norm == Norm::l2 ? widened(x[f]) * widened(x[f]) : std::abs(widened(x[f]));
  return std::max(rule.norm == Norm::l2 ? std::sqrt(sum) : sum, static_cast<double>(rule.eps));
}

template <class T>
double scale_of(const Tokens<T>& p, std::size_t f) {
  return p.feature_scale == nullptr ? 1.0 : static_cast<double>(p.feature_scale[f]);
}

/// The results of `project`, unrounded.
template <class T>
ProjectResult project_reference(const ProjectParams<T>& p) {
  ProjectResult result;
  result.sum.assign(static_cast<std::size_t>(p.dim), 0.0);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const bool has_query = row < p.query_rows;
    const T* k = p.k + row * p.stride;
    const T* v = p.v + row * p.stride;
    const T* q = p.q + row * p.q_stride;
    const double r_q = has_query ? divisor(q, p.dim, p.kernel.query) : 1;
    const double r_k = divisor(k, p.dim, p.kernel.key);
    const double weight = p.weights.of(row);
    for (std::int64_t f = 0; f < p.dim; ++f) {
      const double given = widened(k[f]) / r_k * widened(v[f]);
      if (has_query) result.q_hat.push_back(widened(q[f]) / r_q);
      result.sum[static_cast<std::size_t>(f)] += weight * given;
    }
  }
  return result;
}

inline std::vector<double> combine_reference(const float* sums, std::int64_t count,
                                             std::int64_t dim, float scale,
                                             const float* feature_scale) {
  std::vector<double> g(static_cast<std::size_t>(dim));
  for (std::int64_t f = 0; f < dim; ++f) {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(sums[i * dim + f]);
    g[static_cast<std::size_t>(f)] =
        static_cast<double>(scale) * sum *
        (feature_scale == nullptr ? 1.0 : static_cast<double>(feature_scale[f]));
  }
  return g;
}

/// (rows, dim)
template <class T>
std::vector<double> gate_reference(const GateParams<T>& p) {
  std::vector<double> y;
  for (std::int64_t row = 0; row < p.rows; ++row)
    for (std::int64_t f = 0; f < p.dim; ++f)
      y.push_back(widened(p.q_hat[row * p.q_hat_stride + f]) * widened(p.g[f]));
  return y;
}

/// (rows, dim)
template <class T>
std::vector<double> add_gated_reference(const AddGatedParams<T>& p) {
  std::vector<double> y;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const T* q = p.q + row * p.q_stride;
    const double r = divisor(q, p.dim, p.rule);
    for (std::int64_t f = 0; f < p.dim; ++f)
      y.push_back(widened(p.y[row * p.y_stride + f]) +
                  widened(q[f]) / r * static_cast<double>(p.g[f]));
  }
  return y;
}

template <class T>
ForwardResult forward_reference(const Tokens<T>& p) {
  const auto dim = static_cast<std::size_t>(p.dim);
  ForwardResult result{Sums(dim), {}, {}};
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    const T* k = p.k + t * p.k_stride;
    const T* v = p.v + t * p.v_stride;
    const double by = p.weights.of(t) / divisor(k, p.dim, p.kernel.key);
    for (std::size_t f = 0; f < dim; ++f) {
      const double given = by * widened(k[f]) * widened(v[f]);
      result.sum.add(f, given, std::abs(given));
    }
  }
  for (std::size_t f = 0; f < dim; ++f)
    result.global.append(scale_of(p, f) * result.sum.values[f],
                         std::abs(scale_of(p, f)) * result.sum.magnitudes[f]);
  for (std::int64_t i = 0; i < p.queries; ++i) {
    const T* q = p.q + i * p.q_stride;
    const double r = divisor(q, p.dim, p.kernel.query);
    for (std::size_t f = 0; f < dim; ++f)
      result.y.append(widened(q[f]) / r * result.global.values[f],
                      std::abs(widened(q[f]) / r) * result.global.magnitudes[f]);
  }
  return result;
}

}  // namespace hydrascope::kernels::hydra
