// The contribution of each token to one token's output, from a mixer's weighted rows.
#pragma once

#include "model/attention/attention.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace hydrascope::testing {

/// (B, N, D): what each token gives to the output of token `query`; the sum over N is that output.
/// From `weighted_rows` by a unit gradient for each feature.
inline at::Tensor contributions(model::TokenMixer& mixer, const at::Tensor& q, const at::Tensor& k,
                                const at::Tensor& v, const model::TokenGrid& grid,
                                std::int64_t query) {
  const std::int64_t dim = v.size(1) * v.size(3);
  const at::Tensor unit = at::eye(dim, v.options()).unsqueeze(1);  // (D, 1, D)
  std::vector<at::Tensor> images;
  for (std::int64_t image = 0; image < v.size(0); ++image) {
    const auto of_image = [&](const at::Tensor& x) { return x.narrow(0, image, 1); };
    images.push_back(
        mixer.weighted_rows(of_image(q), of_image(k), of_image(v), unit, grid, query, 1)
            .sum(1)
            .squeeze(1)
            .t());
  }
  return at::stack(images);
}

}  // namespace hydrascope::testing
