// The naive twin of linear_attention.h: every weight of every pair of tokens by itself, in float64.
#pragma once

#include "kernels/linear_attention/linear_attention.h"
#include "tests/kernels/twin.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::kernels::linear_attention {

using twin::Row;
using twin::widened;

inline constexpr Feature kAllFeatures[] = {
    Feature::elu_plus_one, Feature::relu,         Feature::unit,         Feature::exp,
    Feature::exp_pair,     Feature::softmax_pair, Feature::softmax_both, Feature::exp_centred};

inline std::string name_of(Feature feature) {
  return "map " + std::to_string(static_cast<int>(feature));
}

/// As the mechanisms have it.
inline Shape shape_of(Feature feature, std::int64_t heads, std::int64_t width,
                      std::int64_t head_dim) {
  using Division = Normaliser::Rule;
  return {heads,
          width,
          head_dim,
          {feature, {feature == Feature::unit ? Division::none : Division::add_eps, 1e-6F}}};
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
  TokenWeights weights;
};

struct Mixed {
  twin::Sums y;                 ///< (H * d)
  double largest_exponent = 0;  ///< |U| + |W|, what the exponents' own rounding scales with
};

inline Row times(double factor, Row u) {
  for (double& x : u) x *= factor;
  return u;
}

inline Row minus(Row u, double shift) {
  for (double& x : u) x -= shift;
  return u;
}

inline Row joined(Row a, const Row& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline double most_of(const Row& u) { return *std::max_element(u.begin(), u.end()); }

inline Row log_softmax(const Row& u) {
  const double most = most_of(u);
  double sum = 0;
  for (const double x : u) sum += std::exp(x - most);
  return minus(u, most + std::log(sum));
}

/// Features, or exponents where the map gives those.
inline Row mapped(const Shape& shape, const Row& u) {
  Row features;
  double square = 0;
  for (const double x : u) square += x * x;
  switch (shape.rule.feature) {
    case Feature::elu_plus_one:
      for (const double x : u) features.push_back(x > 0 ? x + 1 : std::exp(x));
      return features;
    case Feature::relu:
      for (const double x : u) features.push_back(x < 0 ? 0 : x);
      return features;
    case Feature::unit:
      return times(1 / std::max(static_cast<double>(shape.rule.unit_eps), std::sqrt(square)), u);
    case Feature::exp: return u;
    case Feature::exp_pair: return joined(u, times(-1, u));
    case Feature::softmax_pair: return joined(log_softmax(u), log_softmax(times(-1, u)));
    case Feature::softmax_both: return log_softmax(joined(times(2, u), times(-2, u)));
    case Feature::exp_centred:
      return joined(minus(u, most_of(u)), minus(times(-1, u), most_of(times(-1, u))));
  }
  return features;
}

/// What `accumulate`, `combine` and `read_out` leave in row `query` of y, unrounded:
///   y = sum_j w_j (sum_f a_f b_jf) v_j / m
/// with exponents U + W added before anything is raised to a power, so that nothing here depends on
/// how the kernel keeps them from overflowing.
template <class T>
Mixed linear_attention_reference(const Tokens<T>& t, std::int64_t query) {
  const Shape& shape = t.shape;
  const bool exponential = is_exponential(shape.rule.feature);
  Mixed mixed;
  for (std::int64_t head = 0; head < shape.num_heads; ++head) {
    const Row a =
        mapped(shape, widened(t.q + query * t.q_stride + head * shape.width, shape.width));
    std::vector<Row> b;
    double most = 0;
    for (std::int64_t j = 0; j < t.keys; ++j) {
      b.push_back(mapped(shape, widened(t.k + j * t.k_stride + head * shape.width, shape.width)));
      for (std::size_t f = 0; f < a.size() && exponential; ++f) {
        most = j == 0 && f == 0 ? a[f] + b[0][f] : std::max(most, a[f] + b.back()[f]);
        mixed.largest_exponent =
            std::max(mixed.largest_exponent, std::abs(a[f]) + std::abs(b.back()[f]));
      }
    }
    double sum = 0;
    twin::Sums y(static_cast<std::size_t>(shape.head_dim));
    for (std::int64_t j = 0; j < t.keys; ++j) {
      const double token = t.weights.of(j);
      double weight = 0;
      double size = 0;
      for (std::size_t f = 0; f < a.size(); ++f) {
        const double bf = b[static_cast<std::size_t>(j)][f];
        const double term = exponential ? std::exp(a[f] + bf - most) : a[f] * bf;
        weight += token * term;
        size += std::abs(token * term);
      }
      sum += weight;
      const Row v = widened(t.v + j * t.v_stride + head * shape.head_dim, shape.head_dim);
      for (std::size_t c = 0; c < v.size(); ++c) y.add(c, weight * v[c], size * v[c]);
    }
    double m = 1;
    if (exponential) {
      m = sum;
    } else if (shape.rule.divides()) {
      m = sum + static_cast<double>(shape.rule.normaliser.eps);
    }
    mixed.y.append(y, 1 / m);
  }
  return mixed;
}

/// The sums of all tokens, laid out as the sums of one tile; M is 0 for maps without exponents.
template <class T>
std::vector<double> sums_reference(const Tokens<T>& t) {
  const Shape& shape = t.shape;
  const bool exponential = is_exponential(shape.rule.feature);
  std::vector<double> s, z, maximum;
  for (std::int64_t head = 0; head < shape.num_heads; ++head) {
    std::vector<Row> b;
    for (std::int64_t j = 0; j < t.keys; ++j)
      b.push_back(mapped(shape, widened(t.k + j * t.k_stride + head * shape.width, shape.width)));
    for (std::size_t f = 0; f < b[0].size(); ++f) {
      double most = exponential ? b[0][f] : 0;
      for (const Row& row : b) most = exponential ? std::max(most, row[f]) : 0;
      Row products(static_cast<std::size_t>(shape.head_dim));
      double sum = 0;
      for (std::int64_t j = 0; j < t.keys; ++j) {
        const double value = b[static_cast<std::size_t>(j)][f];
        const double weight = t.weights.of(j) * (exponential ? std::exp(value - most) : value);
        const Row v = widened(t.v + j * t.v_stride + head * shape.head_dim, shape.head_dim);
        for (std::size_t c = 0; c < v.size(); ++c) products[c] += weight * v[c];
        sum += weight;
      }
      s.insert(s.end(), products.begin(), products.end());
      z.push_back(sum);
      maximum.push_back(most);
    }
  }
  return joined(joined(s, z), maximum);
}

}  // namespace hydrascope::kernels::linear_attention
