// The naive twin of token_rows_cuda.h, in float64; the tensors are on the host.
#pragma once

#include "kernels/token_rows/token_rows_cuda.h"
#include "tests/kernels/twin.h"

#include <vector>

namespace hydrascope::kernels::token_rows {

/// What `prefix_tokens` writes, unrounded: (images, num_prefix, dim).
template <class T>
std::vector<double> prefix_tokens_reference(const cuda::PrefixTokensParams<T>& p) {
  std::vector<double> x;
  for (std::int64_t image = 0; image < p.images; ++image)
    for (std::int64_t i = 0; i < p.num_prefix * p.dim; ++i)
      x.push_back(static_cast<double>(p.prefix[i]));
  return x;
}

/// What `mean_of_patches` writes, unrounded: (images, dim).
template <class T>
std::vector<double> mean_of_patches_reference(const cuda::MeanOfPatchesParams<T>& p) {
  std::vector<double> y;
  for (std::int64_t image = 0; image < p.images; ++image) {
    for (std::int64_t i = 0; i < p.dim; ++i) {
      double sum = 0;
      for (std::int64_t token = p.num_prefix; token < p.tokens; ++token)
        sum += twin::widened(p.x[image * p.image_stride + token * p.x_stride + i]);
      y.push_back(sum / static_cast<double>(p.tokens - p.num_prefix));
    }
  }
  return y;
}

}  // namespace hydrascope::kernels::token_rows
