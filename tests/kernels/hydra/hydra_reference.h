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
  TokenWeights weights;
  const float* feature_scale;  ///< (dim) or null
};

/// hydra_cuda.h's `forward` of one image.
struct ForwardResult {
  Sums sum;     ///< c (dim)
  Sums global;  ///< g (dim)
  Sums y;       ///< (queries, dim)
};

/// hydra_cuda.h's `backward` of one image, of grad_y (queries, dim); where a token with |x| < eps
/// is a constant, its own gradient is zero.
struct BackwardResult {
  Sums grad_q;              ///< (queries, dim)
  Sums grad_k;              ///< (tokens, dim)
  Sums grad_v;              ///< (tokens, dim)
  Sums grad_feature_scale;  ///< (dim)
};

/// |x| of a row.
template <class T>
double length_of(const T* x, std::int64_t dim, Norm norm) {
  double sum = 0;
  for (std::int64_t f = 0; f < dim; ++f)
    sum += norm == Norm::l2 ? widened(x[f]) * widened(x[f]) : std::abs(widened(x[f]));
  return norm == Norm::l2 ? std::sqrt(sum) : sum;
}

/// r of a row.
template <class T>
double divisor(const T* x, std::int64_t dim, const NormRule& rule) {
  if (rule.norm == Norm::none) return 1;
  return std::max(length_of(x, dim, rule.norm), static_cast<double>(rule.eps));
}

template <class T>
double scale_of(const Tokens<T>& p, std::size_t f) {
  return p.feature_scale == nullptr ? 1.0 : static_cast<double>(p.feature_scale[f]);
}

/// Appends J^T g of one row, J the derivative of x / r(x):
///   dx = (g - (d|x|/dx) (p . g)) / r,  p = x / r.
template <class T>
void append_gradient(Sums& gradient, const T* x, const Sums& g, const NormRule& rule) {
  const Norm norm = rule.norm;
  const auto dim = static_cast<std::int64_t>(g.values.size());
  const double r = divisor(x, dim, rule);
  const double length = length_of(x, dim, norm);
  const bool constant = norm != Norm::none && length < static_cast<double>(rule.eps);
  double along = 0;
  double along_magnitude = 0;
  for (std::size_t f = 0; f < g.values.size(); ++f) {
    along += widened(x[f]) / r * g.values[f];
    along_magnitude += std::abs(widened(x[f]) / r) * g.magnitudes[f];
  }
  for (std::size_t f = 0; f < g.values.size(); ++f) {
    const double value = widened(x[f]);
    double slope = 0;  // of r in x_f
    if (norm == Norm::l1) slope = value > 0 ? 1 : (value < 0 ? -1 : 0);
    if (norm == Norm::l2) slope = length > 0 ? value / length : 0;
    if (constant) {
      gradient.append(0, 0);
    } else {
      gradient.append((g.values[f] - slope * along) / r,
                      (g.magnitudes[f] + std::abs(slope) * along_magnitude) / r);
    }
  }
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

template <class T>
BackwardResult backward_reference(const Tokens<T>& p, const T* grad_y, std::int64_t grad_y_stride) {
  BackwardResult result;
  const auto dim = static_cast<std::size_t>(p.dim);
  const ForwardResult forward = forward_reference(p);
  Sums gated(dim);  // sum_i qh_i * grad_y_i
  for (std::int64_t i = 0; i < p.queries; ++i) {
    const T* q = p.q + i * p.q_stride;
    const T* given = grad_y + i * grad_y_stride;
    const double r = divisor(q, p.dim, p.kernel.query);
    Sums of_q_hat;
    for (std::size_t f = 0; f < dim; ++f) {
      const double product = widened(q[f]) / r * widened(given[f]);
      gated.add(f, product, std::abs(product));
      of_q_hat.append(widened(given[f]) * forward.global.values[f],
                      std::abs(widened(given[f])) * forward.global.magnitudes[f]);
    }
    append_gradient(result.grad_q, q, of_q_hat, p.kernel.query);
  }
  for (std::size_t f = 0; f < dim; ++f)
    result.grad_feature_scale.append(forward.sum.values[f] * gated.values[f],
                                     forward.sum.magnitudes[f] * gated.magnitudes[f]);
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    const T* k = p.k + t * p.k_stride;
    const T* v = p.v + t * p.v_stride;
    const double r = divisor(k, p.dim, p.kernel.key);
    Sums of_k_hat;
    for (std::size_t f = 0; f < dim; ++f) {
      const double by = p.weights.of(t) * scale_of(p, f);
      of_k_hat.append(by * gated.values[f] * widened(v[f]),
                      std::abs(by * widened(v[f])) * gated.magnitudes[f]);
      result.grad_v.append(by * gated.values[f] * widened(k[f]) / r,
                           std::abs(by * widened(k[f]) / r) * gated.magnitudes[f]);
    }
    append_gradient(result.grad_k, k, of_k_hat, p.kernel.key);
  }
  return result;
}

}  // namespace hydrascope::kernels::hydra
