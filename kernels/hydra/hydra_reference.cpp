#include "kernels/hydra/hydra_reference.h"

#include <cmath>

namespace hydrascope::kernels::hydra {
namespace {

template <class T>
double widened(T value) {
  return static_cast<double>(static_cast<float>(value));
}

/// r of a row.
template <class T>
double divisor(const T* x, std::int64_t dim, Norm norm, const Kernel& kernel) {
  if (norm == Norm::none) return 1;
  double sum = 0;
  for (std::int64_t f = 0; f < dim; ++f)
    sum += norm == Norm::l2 ? widened(x[f]) * widened(x[f]) : std::abs(widened(x[f]));
  const double length = norm == Norm::l2 ? std::sqrt(sum) : sum;
  const auto eps = static_cast<double>(kernel.eps);
  switch (kernel.eps_rule) {
    case Eps::max: return length < eps ? eps : length;
    case Eps::rsqrt: return std::sqrt(length * length + eps * eps);
    case Eps::add: return length + eps;
  }
  return length;
}

}  // namespace

template <class T>
ProjectResult project_reference(const ProjectParams<T>& p) {
  ProjectResult result;
  result.sum.assign(static_cast<std::size_t>(p.dim), 0.0);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const bool has_query = row < p.query_rows;
    const T* k = p.k + row * p.stride;
    const T* v = p.v + row * p.stride;
    const T* q = p.q + row * p.q_stride;
    const double r_q = has_query ? divisor(q, p.dim, p.kernel.norm_q, p.kernel) : 1;
    const double r_k = divisor(k, p.dim, p.kernel.norm_k, p.kernel);
    const auto weight = static_cast<double>(row < p.num_prefix ? p.prefix_weight : p.patch_weight);
    for (std::int64_t f = 0; f < p.dim; ++f) {
      const double given = widened(k[f]) / r_k * widened(v[f]);
      if (has_query) result.q_hat.push_back(widened(q[f]) / r_q);
      result.sum[static_cast<std::size_t>(f)] += weight * given;
    }
  }
  return result;
}

std::vector<double> combine_reference(const float* sums, std::int64_t count, std::int64_t dim,
                                      float scale, const float* feature_scale) {
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

template <class T>
std::vector<double> gate_reference(const T* q_hat, std::int64_t q_hat_stride, const float* g,
                                   std::int64_t rows, std::int64_t dim) {
  std::vector<double> y;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t f = 0; f < dim; ++f)
      y.push_back(widened(q_hat[row * q_hat_stride + f]) * static_cast<double>(g[f]));
  return y;
}

template ProjectResult project_reference(const ProjectParams<float>&);
template ProjectResult project_reference(const ProjectParams<BFloat16>&);
template std::vector<double> gate_reference(const float*, std::int64_t, const float*, std::int64_t,
                                            std::int64_t);
template std::vector<double> gate_reference(const BFloat16*, std::int64_t, const float*,
                                            std::int64_t, std::int64_t);

}  // namespace hydrascope::kernels::hydra
