// The naive twin of linear_attention.h: every weight of every pair of tokens by itself, in float64.
#pragma once

#include "kernels/linear_attention/linear_attention.h"
#include "tests/kernels/twin.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
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

struct Gradients {
  twin::Sums q;                 ///< (queries, H * w)
  twin::Sums k;                 ///< (keys, H * w)
  twin::Sums v;                 ///< (keys, H * d)
  double largest_exponent = 0;  ///< |U| + |W|
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

inline double total(std::span<const double> row) {
  double sum = 0;
  for (const double x : row) sum += x;
  return sum;
}

/// J^T of `mapped` at u.
inline twin::Sums pulled_back(const Shape& shape, const Row& u, const twin::Sums& g) {
  const std::size_t width = u.size();
  const Row p = mapped(shape, u);
  twin::Sums du(width);
  const auto pass = [&](std::size_t i, double factor, std::size_t from) {
    du.add(i, factor * g.values[from], factor * g.magnitudes[from]);
  };
  const bool pair = shape.features() == 2 * shape.width;
  const auto half = [&](const Row& row, std::size_t which) {
    return std::span(row).subspan(which * width, width);
  };
  double along = 0;
  double along_size = 0;
  for (std::size_t i = 0; i < width; ++i) {
    along += p[i] * g.values[i];
    along_size += std::abs(p[i]) * g.magnitudes[i];
  }
  double square = 0;
  for (const double x : u) square += x * x;
  const double norm = std::sqrt(square);
  const double slope = shape.rule.feature == Feature::softmax_both ? 2 : 1;
  for (std::size_t i = 0; i < width; ++i) {
    switch (shape.rule.feature) {
      case Feature::elu_plus_one: pass(i, u[i] > 0 ? 1 : std::exp(u[i]), i); break;
      case Feature::relu: pass(i, u[i] <= 0 ? 0 : 1, i); break;
      case Feature::unit:
        if (norm < static_cast<double>(shape.rule.unit_eps)) break;
        pass(i, 1 / norm, i);
        du.add(i, -p[i] * along / norm, p[i] * along_size / norm);
        break;
      case Feature::exp: pass(i, 1, i); break;
      default: pass(i, slope, i); pass(i, -slope, width + i);
    }
  }
  if (!pair || shape.rule.feature == Feature::exp_pair) return du;
  // The gradient of the shift of a row, or of each half.
  for (std::size_t part = 0; part < 2; ++part) {
    const double sign = part == 0 ? slope : -slope;
    const double sum =
        shape.rule.feature == Feature::softmax_both ? total(g.values) : total(half(g.values, part));
    const double size = shape.rule.feature == Feature::softmax_both
                            ? total(g.magnitudes)
                            : total(half(g.magnitudes, part));
    const auto exponents = half(p, part);
    const auto at_most = std::count(exponents.begin(), exponents.end(), 0.0);
    for (std::size_t i = 0; i < width; ++i) {
      double share = std::exp(exponents[i]);  // of a softmax
      if (shape.rule.feature == Feature::exp_centred)
        share = exponents[i] == 0 ? 1 / static_cast<double>(at_most) : 0;
      du.add(i, -sign * share * sum, share * size);
    }
  }
  return du;
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

/// Reverse mode of `linear_attention_reference` for all queries, pair by pair, with
/// P_ijf = w_j a_if b_jf and A_ij = sum_f P_ijf / m_i (maps with exponents: a b = exp(U + W)):
///   dv_j   = sum_i A_ij g_i                    dA_ij = g_i . v_j - g_i . y_i  (without normaliser:
///   dU_if  = sum_j P_ijf dA_ij / m_i           g_i . v_j)
///   dW_jf  = sum_i P_ijf dA_ij / m_i           other maps: da, db, P without the factor itself
///   dq, dk = J^T of the map
/// Without a derivative: relu' (0) = 0 as elu' (0) = 1; equal maxima of exp_centred
/// share its gradient evenly; a row of `unit` shorter than unit_eps is a constant, as the model's
/// normalisation has it. `grad_y` (queries, H * d).
template <class T>
Gradients linear_attention_backward_reference(const Tokens<T>& t, const T* grad_y,
                                              std::int64_t grad_y_stride) {
  const Shape& shape = t.shape;
  const bool exponential = is_exponential(shape.rule.feature);
  const bool divides = shape.rule.divides();
  const std::int64_t width = shape.width;
  const std::int64_t dim = shape.head_dim;
  const auto features = static_cast<std::size_t>(shape.features());
  const auto keys = static_cast<std::size_t>(t.keys);
  Gradients all;
  all.q = twin::Sums(static_cast<std::size_t>(t.queries * shape.num_heads * width));
  all.k = twin::Sums(static_cast<std::size_t>(t.keys * shape.num_heads * width));
  all.v = twin::Sums(static_cast<std::size_t>(t.keys * shape.num_heads * dim));
  const auto give = [](const twin::Sums& row, std::int64_t at, twin::Sums& to) {
    std::copy(row.values.begin(), row.values.end(), to.values.begin() + at);
    std::copy(row.magnitudes.begin(), row.magnitudes.end(), to.magnitudes.begin() + at);
  };
  for (std::int64_t head = 0; head < shape.num_heads; ++head) {
    std::vector<Row> keys_u;
    std::vector<Row> b;
    std::vector<Row> v;
    for (std::int64_t j = 0; j < t.keys; ++j) {
      keys_u.push_back(widened(t.k + j * t.k_stride + head * width, width));
      b.push_back(mapped(shape, keys_u.back()));
      v.push_back(widened(t.v + j * t.v_stride + head * dim, dim));
    }
    Row p(keys * features);  // of one query, by key
    std::vector<twin::Sums> db(keys, twin::Sums(features));
    std::vector<twin::Sums> dv(keys, twin::Sums(static_cast<std::size_t>(dim)));
    for (std::int64_t i = 0; i < t.queries; ++i) {
      const Row u = widened(t.q + i * t.q_stride + head * width, width);
      const Row a = mapped(shape, u);
      const Row g = widened(grad_y + i * grad_y_stride + head * dim, dim);
      double most = -std::numeric_limits<double>::infinity();
      for (std::size_t j = 0; j < keys && exponential; ++j) {
        for (std::size_t f = 0; f < features; ++f) {
          most = std::max(most, a[f] + b[j][f]);
          all.largest_exponent = std::max(all.largest_exponent, std::abs(a[f]) + std::abs(b[j][f]));
        }
      }
      // P of this query and its sums, then y and g . y.
      Row weight(keys);
      Row weight_size(keys);
      double m = exponential ? 0 : static_cast<double>(shape.rule.normaliser.eps);
      for (std::size_t j = 0; j < keys; ++j) {
        const double token = t.weights.of(static_cast<std::int64_t>(j));
        for (std::size_t f = 0; f < features; ++f) {
          double& term = p[j * features + f];
          term = token * (exponential ? std::exp(a[f] + b[j][f] - most) : a[f] * b[j][f]);
          weight[j] += term;
          weight_size[j] += std::abs(term);
        }
        m += weight[j];
      }
      if (!divides) m = 1;
      double along = 0;
      double along_size = 0;
      for (std::size_t j = 0; j < keys; ++j) {
        for (std::size_t c = 0; c < g.size(); ++c) {
          along += g[c] * weight[j] * v[j][c] / m;
          along_size += std::abs(g[c] * weight_size[j] * v[j][c] / m);
          dv[j].add(c, weight[j] * g[c] / m, weight_size[j] * g[c] / m);
        }
      }
      twin::Sums da(features);
      for (std::size_t j = 0; j < keys; ++j) {
        const double token = t.weights.of(static_cast<std::int64_t>(j));
        double slope = divides ? -along : 0;
        double size = divides ? along_size : 0;
        for (std::size_t c = 0; c < g.size(); ++c) {
          slope += g[c] * v[j][c];
          size += std::abs(g[c] * v[j][c]);
        }
        for (std::size_t f = 0; f < features; ++f) {
          const double of_a = exponential ? p[j * features + f] : token * b[j][f];
          const double of_b = exponential ? p[j * features + f] : token * a[f];
          da.add(f, of_a * slope / m, of_a * size / m);
          db[j].add(f, of_b * slope / m, of_b * size / m);
        }
      }
      give(pulled_back(shape, u, da), (i * shape.num_heads + head) * width, all.q);
    }
    for (std::int64_t j = 0; j < t.keys; ++j) {
      const auto at = static_cast<std::size_t>(j);
      give(pulled_back(shape, keys_u[at], db[at]), (j * shape.num_heads + head) * width, all.k);
      give(dv[at], (j * shape.num_heads + head) * dim, all.v);
    }
  }
  return all;
}

}  // namespace hydrascope::kernels::linear_attention
