#include "tests/kernels/attention_map/attention_map_reference.h"

#include <algorithm>
#include <cmath>

namespace hydrascope::kernels::attention_map {
namespace {

using linear_attention::Feature;
using Row = std::vector<double>;

template <class T>
double widened(T value) {
  return static_cast<double>(static_cast<float>(value));
}
template <class T>
Row widened(const T* values, std::int64_t count) {
  Row row;
  for (std::int64_t i = 0; i < count; ++i) row.push_back(widened(values[i]));
  return row;
}

/// r of a row of keys.
template <class T>
double length_of(const T* k, std::int64_t dim, const hydra::Kernel& kernel) {
  if (kernel.norm_k == hydra::Norm::none) return 1;
  const bool squares = kernel.norm_k == hydra::Norm::l2;
  double sum = 0;
  for (const double x : widened(k, dim)) sum += squares ? x * x : std::abs(x);
  const double length = squares ? std::sqrt(sum) : sum;
  const double eps = widened(kernel.eps);
  if (kernel.eps_rule == hydra::Eps::rsqrt) return std::sqrt(length * length + eps * eps);
  if (kernel.eps_rule == hydra::Eps::add) return length + eps;
  return length < eps ? eps : length;
}

Row log_softmax(Row u) {
  const double most = *std::max_element(u.begin(), u.end());
  double sum = 0;
  for (const double x : u) sum += std::exp(x - most);
  for (double& x : u) x -= most + std::log(sum);
  return u;
}
Row times(double factor, Row u) {
  for (double& x : u) x *= factor;
  return u;
}
Row joined(Row a, const Row& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Features of a head's row, or exponents where the map gives those (linear_attention.h, Feature).
Row mapped(const linear_attention::Shape& shape, Row u) {
  const Row negative = times(-1, u);
  switch (shape.feature) {
    case Feature::elu_plus_one:
      for (double& x : u) x = x > 0 ? x + 1 : std::exp(x);
      return u;
    case Feature::relu:
      for (double& x : u) x = x < 0 ? 0 : x;
      return u;
    case Feature::unit: {
      double square = 0;
      for (const double x : u) square += x * x;
      return times(1 / std::max(widened(shape.unit_eps), std::sqrt(square)), u);
    }
    case Feature::exp: return u;
    case Feature::exp_pair: return joined(u, negative);
    case Feature::softmax_pair: return joined(log_softmax(u), log_softmax(negative));
    case Feature::softmax_both: return log_softmax(joined(times(2, u), times(2, negative)));
    case Feature::exp_centred: {
      const auto [least, most] = std::minmax_element(u.begin(), u.end());
      Row both;
      for (const double x : u) both.push_back(x - *most);
      for (const double x : u) both.push_back(*least - x);
      return both;
    }
  }
  return u;
}

double largest_size(const Row& u) {
  double most = 0;
  for (const double x : u) most = std::max(most, std::abs(x));
  return most;
}

}  // namespace

template <class T>
Expected hydra_map_reference(const HydraMapParams<T>& p) {
  Expected heat;
  for (std::int64_t t = 0; t < p.rows; ++t) {
    const T* k = p.k + t * p.stride;
    const T* v = p.v + t * p.stride;
    const double by = widened(t < p.num_prefix ? p.prefix_weight : p.patch_weight) /
                      length_of(k, p.dim, p.kernel);
    double sum = 0;
    double magnitude = 0;
    for (std::int64_t f = 0; f < p.dim; ++f) {
      const double given = widened(p.weight[f]) * by * widened(k[f]) * widened(v[f]);
      sum += p.measure == HydraMeasure::sum ? given : given * given;
      magnitude += p.measure == HydraMeasure::sum ? std::abs(given) : given * given;
    }
    heat.values.push_back(sum);
    heat.magnitudes.push_back(magnitude);
  }
  return heat;
}

template <class T>
Expected softmax_scores_reference(const SoftmaxScoresParams<T>& p) {
  Expected scores;
  for (std::int64_t head = 0; head < p.num_heads; ++head) {
    for (std::int64_t t = 0; t < p.rows; ++t) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t i = head * p.head_dim; i < (head + 1) * p.head_dim; ++i) {
        const double product = widened(p.q[i]) * widened(p.k[t * p.k_stride + i]);
        sum += product;
        magnitude += std::abs(product);
      }
      scores.values.push_back(sum);
      scores.magnitudes.push_back(magnitude);
    }
  }
  return scores;
}

template <class T>
Expected linear_scores_reference(const LinearScoresParams<T>& p) {
  const std::int64_t width = p.shape.width;
  const bool exponential = linear_attention::is_exponential(p.shape.feature);
  Expected scores;
  for (std::int64_t head = 0; head < p.shape.num_heads; ++head) {
    const Row of_q = widened(p.q + head * width, width);
    const Row a = mapped(p.shape, of_q);
    for (std::int64_t t = 0; t < p.rows; ++t) {
      const Row of_k = widened(p.k + t * p.k_stride + head * width, width);
      const Row b = mapped(p.shape, of_k);
      const double c = widened(t < p.num_prefix ? p.prefix_weight : p.patch_weight);
      double score = 0;
      double magnitude = 0;
      if (exponential) {
        Row exponents;
        for (std::size_t f = 0; f < a.size(); ++f) exponents.push_back(a[f] + b[f]);
        const double most = *std::max_element(exponents.begin(), exponents.end());
        for (const double x : exponents) score += std::exp(x - most);
        score = most + std::log(score) + std::log(c);
        magnitude = 1 + largest_size(of_q) + largest_size(of_k) + largest_size(a) +
                    largest_size(b) + (c == 0 ? 0 : std::abs(std::log(c)));
      } else {
        for (std::size_t f = 0; f < a.size(); ++f) {
          score += c * a[f] * b[f];
          magnitude += std::abs(c * a[f] * b[f]);
        }
      }
      scores.values.push_back(score);
      scores.magnitudes.push_back(magnitude);
    }
  }
  return scores;
}

Expected normalise_reference(const float* scores, std::int64_t score_stride, std::int64_t num_heads,
                             std::int64_t num_tokens, Weights rule, float eps) {
  Expected weights;
  for (std::int64_t head = 0; head < num_heads; ++head) {
    const Row s = widened(scores + head * score_stride, num_tokens);
    const double most = s.empty() ? 0 : *std::max_element(s.begin(), s.end());
    double sum = rule == Weights::over_sum ? widened(eps) : 0;
    double magnitude = std::abs(sum);
    for (const double x : s) {
      sum += rule == Weights::softmax ? std::exp(x - most) : x;
      magnitude += rule == Weights::softmax ? std::exp(x - most) : std::abs(x);
    }
    for (const double x : s) {
      const bool finite = std::isfinite(x);
      switch (rule) {
        case Weights::softmax:
          weights.values.push_back(std::exp(x - most) / sum);
          // An exponent is rounded before it is raised.
          weights.magnitudes.push_back(weights.values.back() * (1 + (finite ? most - x : 0)));
          break;
        case Weights::over_sum:
          weights.values.push_back(x / sum);
          weights.magnitudes.push_back(std::abs(x / sum) * (1 + magnitude / std::abs(sum)));
          break;
        case Weights::raw:
          weights.values.push_back(x);
          weights.magnitudes.push_back(0);
          break;
      }
    }
  }
  return weights;
}

Expected mean_over_heads_reference(const float* weights, std::int64_t weight_stride,
                                   std::int64_t num_heads, std::int64_t rows) {
  Expected heat;
  for (std::int64_t t = 0; t < rows; ++t) {
    double sum = 0;
    double magnitude = 0;
    for (std::int64_t head = 0; head < num_heads; ++head) {
      sum += widened(weights[head * weight_stride + t]);
      magnitude += std::abs(widened(weights[head * weight_stride + t]));
    }
    heat.values.push_back(sum / static_cast<double>(num_heads));
    heat.magnitudes.push_back(magnitude / static_cast<double>(num_heads));
  }
  return heat;
}

template Expected hydra_map_reference(const HydraMapParams<float>&);
template Expected hydra_map_reference(const HydraMapParams<BFloat16>&);
template Expected softmax_scores_reference(const SoftmaxScoresParams<float>&);
template Expected softmax_scores_reference(const SoftmaxScoresParams<BFloat16>&);
template Expected linear_scores_reference(const LinearScoresParams<float>&);
template Expected linear_scores_reference(const LinearScoresParams<BFloat16>&);

}  // namespace hydrascope::kernels::attention_map
