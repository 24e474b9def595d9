// Losses of logits by loops in double, for tests of those that train.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>

namespace hydrascope::model::training {

/// log softmax(x / t)[row][column], by loops in double.
inline double log_share(const at::Tensor& x, std::int64_t row, std::int64_t column, double t = 1) {
  double sum = 0;
  for (std::int64_t c = 0; c < x.size(1); ++c) sum += std::exp(x[row][c].item<double>() / t);
  return x[row][column].item<double>() / t - std::log(sum);
}

/// Mean over the rows of -sum_c t_c log p_c, t being the label, of which `smoothing` is spread over
/// all classes.
inline double label_loss(const at::Tensor& logits, const at::Tensor& labels, double smoothing = 0) {
  const auto rows = static_cast<double>(logits.size(0));
  const auto columns = static_cast<double>(logits.size(1));
  double sum = 0;
  for (std::int64_t row = 0; row < logits.size(0); ++row) {
    const auto label = labels[row].item<std::int64_t>();
    for (std::int64_t column = 0; column < logits.size(1); ++column) {
      const double target = (column == label ? 1 - smoothing : 0) + smoothing / columns;
      sum -= target * log_share(logits, row, column);
    }
  }
  return sum / rows;
}

/// Mean over the rows of KL(softmax(teacher / t) | softmax(student / t)).
inline double divergence(const at::Tensor& student, const at::Tensor& teacher, double t) {
  double sum = 0;
  for (std::int64_t row = 0; row < student.size(0); ++row) {
    for (std::int64_t column = 0; column < student.size(1); ++column) {
      const double log_p = log_share(teacher, row, column, t);
      sum += std::exp(log_p) * (log_p - log_share(student, row, column, t));
    }
  }
  return sum / static_cast<double>(student.size(0));
}

}  // namespace hydrascope::model::training
