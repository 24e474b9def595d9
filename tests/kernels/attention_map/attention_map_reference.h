// The naive twins of attention_map.h: one token after the other, in float64.
#pragma once

#include "kernels/attention_map/attention_map.h"
#include "tests/kernels/hydra/hydra_reference.h"
#include "tests/kernels/linear_attention/linear_attention_reference.h"
#include "tests/kernels/twin.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace hydrascope::kernels::attention_map {

using twin::Row;
using twin::Sums;
using twin::widened;

inline double largest_size(const Row& u) {
  double most = 0;
  for (const double x : u) most = std::max(most, std::abs(x));
  return most;
}

/// (rows)
template <class T>
Sums hydra_map_reference(const HydraMapParams<T>& p) {
  Sums heat;
  for (std::int64_t t = 0; t < p.rows; ++t) {
    const T* k = p.k + t * p.stride;
    const T* v = p.v + t * p.stride;
    const double by = widened(t < p.num_prefix ? p.prefix_weight : p.patch_weight) /
                      hydra::divisor(k, p.dim, p.kernel.norm_k, p.kernel);
    double sum = 0;
    double magnitude = 0;
    for (std::int64_t f = 0; f < p.dim; ++f) {
      const double given = widened(p.weight[f]) * by * widened(k[f]) * widened(v[f]);
      sum += p.measure == HydraMeasure::sum ? given : given * given;
      magnitude += p.measure == HydraMeasure::sum ? std::abs(given) : given * given;
    }
    heat.append(sum, magnitude);
  }
  return heat;
}

/// (H, rows)
template <class T>
Sums softmax_scores_reference(const SoftmaxScoresParams<T>& p) {
  Sums scores;
  for (std::int64_t head = 0; head < p.num_heads; ++head) {
    for (std::int64_t t = 0; t < p.rows; ++t) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t i = head * p.head_dim; i < (head + 1) * p.head_dim; ++i) {
        const double product = widened(p.q[i]) * widened(p.k[t * p.k_stride + i]);
        sum += product;
        magnitude += std::abs(product);
      }
      scores.append(sum, magnitude);
    }
  }
  return scores;
}

/// (H, rows); a logarithm's magnitude is 1 and the size of all that its exponents are made of.
template <class T>
Sums linear_scores_reference(const LinearScoresParams<T>& p) {
  const std::int64_t width = p.shape.width;
  const bool exponential = linear_attention::is_exponential(p.shape.feature);
  Sums scores;
  for (std::int64_t head = 0; head < p.shape.num_heads; ++head) {
    const Row of_q = widened(p.q + head * width, width);
    const Row a = linear_attention::mapped(p.shape, of_q);
    for (std::int64_t t = 0; t < p.rows; ++t) {
      const Row of_k = widened(p.k + t * p.k_stride + head * width, width);
      const Row b = linear_attention::mapped(p.shape, of_k);
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
      scores.append(score, magnitude);
    }
  }
  return scores;
}

/// (H, tokens)
inline Sums normalise_reference(const float* scores, std::int64_t score_stride,
                                std::int64_t num_heads, std::int64_t num_tokens, Weights rule,
                                float eps) {
  Sums weights;
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
          // An exponent is rounded before it is raised.
          weights.append(std::exp(x - most) / sum,
                         std::exp(x - most) / sum * (1 + (finite ? most - x : 0)));
          break;
        case Weights::over_sum:
          weights.append(x / sum, std::abs(x / sum) * (1 + magnitude / std::abs(sum)));
          break;
        case Weights::raw: weights.append(x, 0); break;
      }
    }
  }
  return weights;
}

/// (rows)
inline Sums mean_over_heads_reference(const float* weights, std::int64_t weight_stride,
                                      std::int64_t num_heads, std::int64_t rows) {
  Sums heat;
  for (std::int64_t t = 0; t < rows; ++t) {
    double sum = 0;
    double magnitude = 0;
    for (std::int64_t head = 0; head < num_heads; ++head) {
      sum += widened(weights[head * weight_stride + t]);
      magnitude += std::abs(widened(weights[head * weight_stride + t]));
    }
    heat.append(sum / static_cast<double>(num_heads), magnitude / static_cast<double>(num_heads));
  }
  return heat;
}

}  // namespace hydrascope::kernels::attention_map
