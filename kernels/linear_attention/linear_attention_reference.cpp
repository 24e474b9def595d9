#include "kernels/linear_attention/linear_attention_reference.h"

#include <algorithm>
#include <cmath>

namespace hydrascope::kernels::linear_attention {
namespace {

using Row = std::vector<double>;

template <class T>
Row widened(const T* values, std::int64_t count) {
  Row row;
  for (std::int64_t i = 0; i < count; ++i)
    row.push_back(static_cast<double>(static_cast<float>(values[i])));
  return row;
}

Row times(double factor, Row u) {
  for (double& x : u) x *= factor;
  return u;
}
Row minus(Row u, double shift) {
  for (double& x : u) x -= shift;
  return u;
}
Row joined(Row a, const Row& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
double most_of(const Row& u) { return *std::max_element(u.begin(), u.end()); }
Row log_softmax(const Row& u) {
  const double most = most_of(u);
  double sum = 0;
  for (const double x : u) sum += std::exp(x - most);
  return minus(u, most + std::log(sum));
}

/// Features, or exponents where the map gives those.
Row mapped(const Shape& shape, const Row& u) {
  Row features;
  double square = 0;
  for (const double x : u) square += x * x;
  switch (shape.feature) {
    case Feature::elu_plus_one:
      for (const double x : u) features.push_back(x > 0 ? x + 1 : std::exp(x));
      return features;
    case Feature::relu:
      for (const double x : u) features.push_back(x < 0 ? 0 : x);
      return features;
    case Feature::unit:
      return times(1 / std::max(static_cast<double>(shape.unit_eps), std::sqrt(square)), u);
    case Feature::exp: return u;
    case Feature::exp_pair: return joined(u, times(-1, u));
    case Feature::softmax_pair: return joined(log_softmax(u), log_softmax(times(-1, u)));
    case Feature::softmax_both: return log_softmax(joined(times(2, u), times(-2, u)));
    case Feature::exp_centred:
      return joined(minus(u, most_of(u)), minus(times(-1, u), most_of(times(-1, u))));
  }
  return features;
}

}  // namespace

template <class T>
Mixed linear_attention_reference(const Tokens<T>& t, std::int64_t query) {
  const Shape& shape = t.shape;
  const bool exponential = is_exponential(shape.feature);
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
    Row y(static_cast<std::size_t>(shape.head_dim));
    Row magnitude = y;
    for (std::int64_t j = 0; j < t.keys; ++j) {
      const auto token = static_cast<double>(j < t.num_prefix ? t.prefix_weight : t.patch_weight);
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
      for (std::size_t c = 0; c < y.size(); ++c) {
        y[c] += weight * v[c];
        magnitude[c] += size * std::abs(v[c]);
      }
    }
    double m = 1;
    if (exponential) {
      m = sum;
    } else if (shape.normaliser == Normaliser::add_eps) {
      m = sum + static_cast<double>(shape.eps);
    }
    mixed.y = joined(mixed.y, times(1 / m, y));
    mixed.magnitude = joined(mixed.magnitude, times(1 / std::abs(m), magnitude));
  }
  return mixed;
}

template Mixed linear_attention_reference(const Tokens<float>&, std::int64_t);
template Mixed linear_attention_reference(const Tokens<BFloat16>&, std::int64_t);

}  // namespace hydrascope::kernels::linear_attention
