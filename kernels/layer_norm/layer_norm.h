// Layer normalisation of token rows (Ba et al. 2016, arXiv 1607.06450):
//   y = (x - mean) / sqrt(var + eps) * weight + bias, mean and (biased) var over the row
#pragma once

#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::layer_norm {

template <class T>
struct LayerNormParams {
  const T* x;             ///< (rows, dim), rows contiguous
  std::int64_t x_stride;  ///< elements between rows
  std::int64_t rows;
  std::int64_t dim;
  const float* weight;  ///< (dim); null: 1, where the next linear layer has taken it in
  const float* bias;    ///< (dim); null: 0
  float eps;
  T* y;  ///< (rows, dim); may be x
  std::int64_t y_stride;
};

void layer_norm(const LayerNormParams<float>& params);
void layer_norm(const LayerNormParams<BFloat16>& params);

}  // namespace hydrascope::kernels::layer_norm
