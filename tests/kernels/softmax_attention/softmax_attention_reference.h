// The naive twin of softmax_attention.h and few_queries.h: all scores of a query at once, in float64.
#pragma once

#include "kernels/softmax_attention/softmax_attention.h"
#include "tests/kernels/twin.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace hydrascope::kernels::softmax_attention {

/// Scores of head h become factor[h] * s, and those of keys from `first` on factor[h] * s + bias[h];
/// null: as they are. `sees`: which keys a query sees, (rows, N), 0 or 1; null: all.
struct Weighing {
  const float* factor = nullptr;
  const float* bias = nullptr;
  std::int64_t first = 0;
  const std::uint8_t* sees = nullptr;
};

/// What `attend` leaves in y for the unpacked k and v (N, H * d), unrounded: (rows, H * d). The same
/// of few_queries.h, whose parts `weighing` tells apart.
template <class T>
std::vector<double> softmax_attention_reference(const Shape& shape, const T* q,
                                                std::int64_t q_stride, std::int64_t rows,
                                                const T* k, const T* v, std::int64_t stride,
                                                const Weighing& weighing = {}) {
  const std::int64_t d = shape.head_dim;
  std::vector<double> y(static_cast<std::size_t>(rows * shape.num_heads * d));
  std::vector<double> weights(static_cast<std::size_t>(shape.num_tokens));
  double* output = y.data();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t head = 0; head < shape.num_heads; ++head, output += d) {
      double largest = -std::numeric_limits<double>::infinity();
      for (std::int64_t j = 0; j < shape.num_tokens; ++j) {
        double score = 0;
        for (std::int64_t i = head * d; i < (head + 1) * d; ++i)
          score += twin::widened(q[row * q_stride + i]) * twin::widened(k[j * stride + i]);
        if (weighing.factor != nullptr) score *= static_cast<double>(weighing.factor[head]);
        if (weighing.bias != nullptr && j >= weighing.first)
          score += static_cast<double>(weighing.bias[head]);
        if (weighing.sees != nullptr && weighing.sees[row * shape.num_tokens + j] == 0)
          score = -std::numeric_limits<double>::infinity();
        weights[static_cast<std::size_t>(j)] = score;
        largest = std::max(largest, score);
      }
      double total = 0;
      for (double& weight : weights) total += weight = std::exp(weight - largest);
      for (std::int64_t j = 0; j < shape.num_tokens; ++j)
        for (std::int64_t i = 0; i < d; ++i)
          output[i] += weights[static_cast<std::size_t>(j)] / total *
                       twin::widened(v[j * stride + head * d + i]);
    }
  }
  return y;
}

}  // namespace hydrascope::kernels::softmax_attention
