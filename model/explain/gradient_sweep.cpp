#include "model/explain/gradient_sweep.h"

#include "model/registry/mechanisms.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

namespace hydrascope::model::explain {
namespace {

using at::Tensor;
using torch::autograd::grad;

Tensor leaf(const Tensor& x) { return x.detach().requires_grad_(); }

Tensor rows_of(const Tensor& x, std::int64_t first, std::int64_t count) {
  return x.narrow(1, first, count);
}

/// (1, n, D) -> (1, N, D), zeros after.
Tensor padded_to(const Tensor& x, std::int64_t num_tokens) {
  return x.size(1) == num_tokens ? x : at::constant_pad_nd(x, {0, 0, 0, num_tokens - x.size(1)});
}

}  // namespace

GradientSweep::GradientSweep(VisionTransformerImpl& model, const TokenGrid& grid,
                             std::span<const std::int64_t> classes,
                             std::function<void()> before_step)
    : model_(model),
      grid_(grid),
      readout_(model.config(), grid),
      classes_(classes.begin(), classes.end()),
      before_step_(std::move(before_step)),
      layer_(model.config().depth - 1) {}

SweptBlock GradientSweep::step(const Tensor& tokens, Depth depth) {
  begin_step();
  BlockImpl& block = model_.block(layer_);
  const bool is_last = d_output_.empty();
  const std::int64_t num_rows = is_last ? readout_.end() : grid_.num_tokens();
  const MixerInputs inputs =
      project_tokens(block, tokens, grid_.num_tokens(), /*with_values=*/true);

  const at::AutoGradMode with_gradient(true);
  const MixerInputs leaves{leaf(inputs.q), leaf(inputs.k), leaf(inputs.v)};
  TokenMixer& mixer = block.attention().mixer();
  // A few rows by themselves cost next to nothing, but autograd would keep a linear map's features
  // of all keys for them; all rows of the map cost the same order and keep none.
  const MechanismEntry& mechanism = find_mechanism(model_.config().attention_of(layer_).mechanism);
  const bool by_rows = num_rows < grid_.num_tokens() && (mechanism.quadratic || !mechanism.has_map);
  const Tensor mixed = by_rows ? mixer.mix_rows(leaves.q, leaves.k, leaves.v, grid_, 0, num_rows)
                               : mixer.mix(leaves.q, leaves.k, leaves.v, grid_, Kernels::automatic)
                                     .narrow(1, 0, num_rows);
  if (is_last) start(block, tokens, mixed.detach());

  SweptBlock swept{inputs, std::vector<BlockGradient>(classes_.size())};
  through_branches(block, tokens, mixed.detach(), swept.of_class);
  std::vector<MixerInputs> d_inputs;
  for (std::size_t c = 0; c < classes_.size() && depth != Depth::mixed; ++c) {
    begin_step();
    const bool retain = c + 1 < classes_.size();
    std::vector<Tensor> wanted{leaves.v};
    if (depth == Depth::input) wanted = {leaves.v, leaves.q, leaves.k};
    const auto d = grad({mixed}, wanted, {swept.of_class[c].mixed}, retain);
    swept.of_class[c].values = d[0];
    if (depth == Depth::input) d_inputs.push_back({d[1], d[2], d[0]});
  }
  if (depth == Depth::input) through_projection(block, tokens, d_inputs, swept.of_class);
  for (BlockGradient& gradient : swept.of_class)
    gradient.mixed = padded_to(gradient.mixed, grid_.num_tokens());
  --layer_;
  return swept;
}

void GradientSweep::start(BlockImpl& block, const Tensor& tokens, const Tensor& mixed) {
  Tensor output;
  {
    const at::NoGradGuard no_grad;
    output = complete_in_chunks(block, tokens, mixed);
  }
  for (const Tensor& gradient : gradient_of_output(model_, output, classes_).split(1))
    d_output_.push_back(gradient);
}

void GradientSweep::through_branches(BlockImpl& block, const Tensor& tokens, const Tensor& mixed,
                                     std::vector<BlockGradient>& gradients) {
  std::vector<Tensor> d_tokens(gradients.size());
  for (std::size_t c = 0; c < gradients.size(); ++c) {
    gradients[c].mixed = at::empty_like(mixed);
    d_tokens[c] = at::empty_like(mixed);
  }
  for_token_chunks(mixed.size(1), kChunkTokens, [&](std::int64_t first, std::int64_t count) {
    const Tensor x = leaf(rows_of(tokens, first, count));
    const Tensor y = leaf(rows_of(mixed, first, count));
    const Tensor output = block.complete(x, y);
    begin_step();
    for (std::size_t c = 0; c < gradients.size(); ++c) {
      const auto d = grad({output}, {x, y}, {rows_of(d_output_[c], first, count)},
                          /*retain_graph=*/c + 1 < gradients.size());
      rows_of(d_tokens[c], first, count).copy_(d[0]);
      rows_of(gradients[c].mixed, first, count).copy_(d[1]);
    }
  });
  d_output_ = std::move(d_tokens);
}

void GradientSweep::through_projection(BlockImpl& block, const Tensor& tokens,
                                       const std::vector<MixerInputs>& d_inputs,
                                       std::vector<BlockGradient>& gradients) {
  for (std::size_t c = 0; c < gradients.size(); ++c) {
    gradients[c].normalised = at::empty_like(tokens);
    d_output_[c] = padded_to(d_output_[c], grid_.num_tokens());
  }
  for_token_chunks(tokens.size(1), kChunkTokens, [&](std::int64_t first, std::int64_t count) {
    const Tensor x = leaf(rows_of(tokens, first, count));
    const Tensor normalised = block.normalise(x);
    const auto [q, k, v] = block.attention().project(normalised);
    begin_step();
    for (std::size_t c = 0; c < gradients.size(); ++c) {
      const auto chunk = [&](const Tensor& all) { return all.narrow(2, first, count); };
      const auto d = grad({q, k, v}, {normalised, x},
                          {chunk(d_inputs[c].q), chunk(d_inputs[c].k), chunk(d_inputs[c].v)},
                          /*retain_graph=*/c + 1 < gradients.size());
      rows_of(gradients[c].normalised, first, count).copy_(d[0]);
      rows_of(d_output_[c], first, count).add_(d[1]);
    }
  });
}

}  // namespace hydrascope::model::explain
