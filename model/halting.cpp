#include "model/halting.h"

#include "model/autocast_guard.h"
#include "model/block.h"

#include <ATen/ATen.h>

#include <vector>

namespace hydrascope::model {
namespace {

using at::Tensor;

/// The scores of tokens (B, n) on their way through the layers.
struct HaltingScores {
  Tensor sum;
  Tensor rest;    ///< 1 minus the sum before this layer
  Tensor ponder;  ///< N + r of tokens that have left, layers so far of others

  static HaltingScores of(const Tensor& tokens) {
    const Tensor zeros = at::zeros({tokens.size(0), tokens.size(1)},
                                   tokens.options().dtype(to_compute_type(tokens).scalar_type()));
    return {zeros, at::ones_like(zeros), zeros};
  }
};

/// Whether the tokens stay, bool (B, n), and this layer's share of each, which no token that had left before
/// has.
struct HaltingVerdict {
  Tensor stays;
  Tensor share;
};

/// `is_here`: bool (B, n), the tokens that had not left before.
HaltingVerdict judge_tokens(const VitConfig& config, const Tensor& y, bool is_last,
                            const Tensor& is_here, HaltingScores& scores) {
  const Tensor first = to_compute_type(y.select(2, 0));
  const Tensor p =
      is_last ? at::ones_like(first) : (config.gate_scale * first - config.gate_center).sigmoid();
  scores.sum = at::where(is_here, scores.sum + p, scores.sum);
  const Tensor stays =
      is_last ? at::zeros_like(is_here) : is_here.logical_and(scores.sum < 1 - kHaltingRest);
  const Tensor leaves = is_here.logical_and(stays.logical_not());
  const Tensor zero = at::zeros_like(p);
  HaltingVerdict verdict{stays, at::where(leaves, scores.rest, at::where(stays, p, zero))};
  scores.ponder =
      scores.ponder + is_here.to(p.scalar_type()) + at::where(leaves, scores.rest, zero);
  scores.rest = at::where(stays, scores.rest - p, scores.rest);
  return verdict;
}

Tensor masked_run(const VitConfig& config, const Tensor& tokens, const HaltingLayer& layer,
                  HaltingCost& cost) {
  Tensor x = tokens;
  Tensor is_here = at::ones({x.size(0), x.size(1)}, x.options().dtype(at::kBool));
  const Tensor itself = at::eye(x.size(1), x.options().dtype(at::kBool));
  HaltingScores scores = HaltingScores::of(x);
  Tensor answer;
  cost.layers = at::zeros({x.size(0), x.size(1)}, x.options().dtype(at::kLong));
  bool all_here = true;
  for (std::int64_t number = 0; number < config.depth; ++number) {
    // A row without any token would be a division by zero: who has left sees itself.
    const Tensor visible =
        all_here ? Tensor() : is_here.unsqueeze(1).logical_or(itself.unsqueeze(0)).unsqueeze(1);
    const Tensor y = layer(number, x, visible);
    x = all_here ? y : at::where(is_here.unsqueeze(2), y, x);
    cost.layers = cost.layers + is_here.to(at::kLong);
    const HaltingVerdict verdict =
        judge_tokens(config, y, number + 1 == config.depth, is_here, scores);
    const Tensor part = verdict.share.narrow(1, 0, 1) * y.select(1, 0);
    answer = answer.defined() ? answer + part : part;
    is_here = verdict.stays;
    all_here = all_here && is_here.all().item<bool>();
  }
  cost.ponder = scores.ponder.mean();
  return at::cat({answer.unsqueeze(1).to(x.scalar_type()), x.slice(1, 1)}, 1);
}

/// One picture by itself, (1, N, D).
Tensor gathered_run(const VitConfig& config, const Tensor& tokens, const HaltingLayer& layer,
                    HaltingCost& cost) {
  Tensor x = tokens;
  Tensor all = tokens;
  Tensor places = at::arange(x.size(1), x.options().dtype(at::kLong));
  HaltingScores scores = HaltingScores::of(x);
  Tensor answer;
  cost.layers = at::zeros({1, x.size(1)}, places.options());
  for (std::int64_t number = 0; number < config.depth; ++number) {
    const Tensor y = layer(number, x, {});
    all = all.index_copy(1, places, y.to(all.scalar_type()));
    cost.layers = cost.layers.index_add(1, places, at::ones_like(places).unsqueeze(0));
    const Tensor here = at::ones({1, places.size(0)}, places.options().dtype(at::kBool));
    const HaltingVerdict verdict =
        judge_tokens(config, y, number + 1 == config.depth, here, scores);
    const Tensor part = verdict.share.narrow(1, 0, 1) * y.select(1, 0);
    answer = answer.defined() ? answer + part : part;
    x = y;
    if (!verdict.stays[0][0].item<bool>()) break;
    const Tensor kept = verdict.stays.squeeze(0).nonzero().squeeze(1);
    if (kept.size(0) == x.size(1)) continue;
    x = x.index_select(1, kept);
    places = places.index_select(0, kept);
    scores = {scores.sum.index_select(1, kept), scores.rest.index_select(1, kept),
              scores.ponder.index_select(1, kept)};
  }
  return at::cat({answer.unsqueeze(1).to(all.scalar_type()), all.slice(1, 1)}, 1);
}

}  // namespace

Tensor run_halting(const VitConfig& config, const Tensor& tokens, const HaltingLayer& layer,
                   bool masked, HaltingCost& cost) {
  if (masked) return masked_run(config, tokens, layer, cost);
  std::vector<Tensor> outputs, layers;
  for (const Tensor& picture : tokens.split(1)) {
    HaltingCost own;
    outputs.push_back(gathered_run(config, picture, layer, own));
    layers.push_back(own.layers);
  }
  cost = {at::cat(layers), {}};
  return at::cat(outputs);
}

Tensor mix_visible(BlockImpl& block, const Tensor& x, const Tensor& visible) {
  const auto [q, k, v] = block.attention().project(block.normalise(x));
  const AutocastGuard off(x.device().type(), {});
  return merge_heads(visible.defined() ? at::scaled_dot_product_attention(q, k, v, visible)
                                       : at::scaled_dot_product_attention(q, k, v));
}

}  // namespace hydrascope::model
