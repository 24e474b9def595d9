#include "model/attention/sparse/softmax_sums.h"

#include "model/attention/compute_type.h"
#include "model/attention/positions/position_rule.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>

namespace hydrascope::model {

using at::Tensor;

StableExponentials stable_exponentials(const Tensor& scores) {
  // A query that sees nothing has weights of zero, which a maximum of -inf would make NaN.
  const Tensor maximum = scores.detach().amax(-1, /*keepdim=*/true).clamp_min(-1e30);
  return {(scores - maximum).exp(), maximum};
}

Tensor softmax_sums(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& weights) {
  Tensor scores = scaled_products(to_compute_type(q), to_compute_type(k));
  if (weights.defined()) {
    const Tensor unseen =
        weights.scalar_type() == at::kBool ? weights.logical_not() : weights.detach().eq(0);
    scores = scores.masked_fill(unseen, -std::numeric_limits<double>::infinity());
  }
  auto [exponentials, maximum] = stable_exponentials(scores);
  if (weights.defined() && weights.scalar_type() != at::kBool)
    exponentials = exponentials * weights;
  return at::cat(
      {exponentials.matmul(to_compute_type(v)), exponentials.sum(-1, /*keepdim=*/true), maximum},
      -1);
}

Tensor merged_softmax(const std::vector<Tensor>& sums) {
  const std::int64_t width = sums.front().size(-1) - 2;
  Tensor maximum = sums.front().narrow(-1, width + 1, 1);
  for (const Tensor& one : sums) maximum = at::maximum(maximum, one.narrow(-1, width + 1, 1));
  Tensor total;
  for (const Tensor& one : sums) {
    const Tensor factor = (one.narrow(-1, width + 1, 1) - maximum).exp();
    const Tensor part = one.narrow(-1, 0, width + 1) * factor;
    total = total.defined() ? total + part : part;
  }
  return total.narrow(-1, 0, width) / total.narrow(-1, width, 1);
}

}  // namespace hydrascope::model
