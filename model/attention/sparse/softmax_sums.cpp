#include "model/attention/sparse/softmax_sums.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>

namespace hydrascope::model {

using at::Tensor;

Tensor softmax_sums(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& weights,
                    const ScoredPairs& scored) {
  Tensor scores = scored.scores(q, k);
  const bool are_numbers = weights.defined() && weights.scalar_type() != at::kBool;
  if (weights.defined()) {
    const Tensor unseen = are_numbers ? weights.detach().eq(0) : weights.logical_not();
    scores = scores.masked_fill(unseen, -std::numeric_limits<double>::infinity());
  }
  // A query that sees nothing has exponentials of zero, which a maximum of -inf would make NaN.
  const Tensor maximum = scores.detach().amax(-1, /*keepdim=*/true).clamp_min(-1e30);
  Tensor exponentials = (scores - maximum).exp();
  if (are_numbers) exponentials = exponentials * weights;
  return at::cat(
      {scored.mixed(exponentials, v, q.size(-1)), exponentials.sum(-1, /*keepdim=*/true), maximum},
      -1);
}

Tensor prefix_sums(const Tensor& q, const Tensor& k, const Tensor& v, const TokenGrid& grid,
                   const PositionRule* rule) {
  const auto prefix = [&](const Tensor& x) { return x.narrow(2, 0, grid.num_prefix).unsqueeze(1); };
  const Tensor tokens = at::arange(grid.num_tokens(), at::kLong).unsqueeze(0);
  const ScoredPairs scored{
      rule, {grid, tokens.slice(1, grid.num_prefix), tokens.narrow(1, 0, grid.num_prefix), 0}};
  return softmax_sums(q.slice(2, grid.num_prefix).unsqueeze(1), prefix(k), prefix(v), {}, scored)
      .squeeze(1);
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
