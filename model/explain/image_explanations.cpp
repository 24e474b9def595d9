#include "model/explain/image_explanations.h"

#include "model/explain/rollout.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

namespace hydrascope::model::explain {
namespace {

using at::Tensor;

/// relu(X . alpha) of every token (N), X norm1's output for `tokens`, alpha the mean of `gradient`
/// over the patches; both (1, N, D).
Tensor class_activation(BlockImpl& block, const Tensor& tokens, const Tensor& gradient,
                        const TokenGrid& grid) {
  const Tensor alpha =
      gradient.narrow(1, grid.num_prefix, grid.num_image_tokens()).mean(1).squeeze(0);
  std::vector<Tensor> heat;
  for_token_chunks(tokens.size(1), kChunkTokens, [&](std::int64_t first, std::int64_t count) {
    heat.push_back(block.normalise(tokens.narrow(1, first, count)).squeeze(0).mv(alpha).relu());
  });
  return at::cat(heat);
}

/// The parts of g . y, y the first n rows of the mixing of a frame beside `frames`, which stays as it is:
/// g (G, n, D). Mixing has to be linear in the values. A memory without frames has a part of exactly 0.
FrameParts parts_of(TokenMixer& mixer, FrameMemory& frames, const MixerInputs& inputs,
                    const TokenGrid& grid, const Tensor& g) {
  const at::AutoGradMode with_gradient(true);
  // y = J v + y_0: the kept tokens alone mix to y_0, and the gradient at any v is J.
  const Tensor v = at::zeros_like(inputs.v).requires_grad_();
  const Tensor y =
      frames.look(mixer, inputs.q, inputs.k, v, grid, Kernels::automatic).narrow(1, 0, g.size(1));
  std::vector<Tensor> own;
  for (std::int64_t i = 0; i < g.size(0); ++i) {
    const bool retain = i + 1 < g.size(0);
    const Tensor d = torch::autograd::grad({y}, {v}, {g.narrow(0, i, 1)}, retain)[0];
    own.push_back((inputs.v * d).sum(-1));  // (1, H, N)
  }
  return {at::cat(own), split_heads(g * y.detach(), v.size(1)).sum({2, 3})};
}

/// heat (n, N) -> (n, rows, columns). The overview's patches share their heat among the patches
/// beneath and around them.
Tensor map_of(const Tensor& heat, const TokenGrid& grid) {
  Tensor map = heat.narrow(1, grid.num_prefix, grid.num_patches())
                   .reshape({-1, grid.rows, grid.columns})
                   .clone();
  if (grid.num_overview() == 0) return map;
  const Tensor overview = heat.slice(1, grid.num_prefix + grid.num_patches())
                              .reshape({-1, grid.overview_rows, grid.overview_columns});
  const Tensor down = overview_shares(grid.rows, grid.overview_rows).to(heat.scalar_type());
  const Tensor across = overview_shares(grid.columns, grid.overview_columns).to(heat.scalar_type());
  return map.add_(down.matmul(overview).matmul(across.t()));
}

}  // namespace

Tensor overview_shares(std::int64_t count, std::int64_t reduced) {
  const double scale = static_cast<double>(reduced) / static_cast<double>(count);
  const Tensor place = ((at::arange(count, at::kDouble) + 0.5) * scale - 0.5)
                           .clamp(0, static_cast<double>(reduced - 1))
                           .unsqueeze(1);
  const Tensor distance = (place - at::arange(reduced, at::kDouble)).abs();
  const Tensor shares = (1 - distance / std::max(1.0, scale)).clamp_min(0);
  return shares / shares.sum(0, /*keepdim=*/true);
}

bool is_rollout(Method method) {
  return method == Method::rollout || method == Method::grad_rollout ||
         method == Method::attn_gradcam;
}

bool needs_all_gradients(Method method) {
  return method == Method::gradcam || method == Method::grad_rollout ||
         method == Method::attn_gradcam;
}

Tensor ExplainedModel::tokens_of(const Tensor& traced, std::int64_t layer) const {
  const auto index = std::ranges::lower_bound(layers, layer) - layers.begin();
  const Tensor tokens = traced.narrow(0, index, 1).to(device, at::kFloat);
  // Autograd refuses tensors of inference mode.
  return tokens.is_inference() ? tokens.clone() : tokens;
}

FrameMemory* ExplainedModel::frames_of(std::int64_t layer, Method method) {
  if (memory.empty()) return nullptr;
  const MemorySpec& chosen = memory.at(static_cast<std::size_t>(layer));
  if (chosen.memory == kNoMemory) return nullptr;
  std::unique_ptr<FrameMemory>& found = frames[{layer, method}];
  if (!found) found = find_memory(chosen.memory).make(memory_options(chosen));
  return found.get();
}

ImageExplanations::ImageExplanations(ExplainedModel& model, const Tensor& traced,
                                     const TokenGrid& grid, std::span<const Request> requests,
                                     const BeforeStep& before_step)
    : model_(model),
      config_(model.model->config()),
      traced_(traced),
      grid_(grid),
      readout_(config_, grid),
      last_(config_.depth - 1),
      requests_(requests),
      before_step_(before_step),
      explanations_(requests.size()) {}

std::vector<Explanation> ImageExplanations::run() {
  constexpr std::array kMapless{MaplessLayers::skip, MaplessLayers::cosine};
  for (const std::int64_t layer : model_.layers) layers_ += has_rows(layer) ? 1 : 0;
  for (const MaplessLayers mapless : kMapless) layers_ += highest_of(rolled_by(mapless)) + 1;
  layers_ += last_ + 1 - lowest_of(swept());
  for (const std::int64_t layer : model_.layers) explain_rows(layer);
  for (const MaplessLayers mapless : kMapless) roll_maps(mapless);
  sweep();
  return std::move(explanations_);
}

template <class Wanted>
ImageExplanations::Indices ImageExplanations::requests_where(Wanted wanted) const {
  Indices found;
  for (std::size_t i = 0; i < requests_.size(); ++i)
    if (wanted(requests_[i])) found.push_back(i);
  return found;
}

std::vector<std::int64_t> ImageExplanations::classes_of(const Indices& indices) const {
  std::set<std::int64_t> classes;
  for (const std::size_t i : indices) classes.insert(requests_[i].class_index);
  return {classes.begin(), classes.end()};
}

ImageExplanations::Indices ImageExplanations::rolled_by(MaplessLayers mapless) const {
  return requests_where([&](const Request& request) {
    return request.method == Method::rollout && request.mapless == mapless;
  });
}

std::int64_t ImageExplanations::highest_of(const Indices& rolled) const {
  std::int64_t highest = -1;
  for (const std::size_t i : rolled) highest = std::max(highest, requests_[i].layer);
  return highest;
}

ImageExplanations::Indices ImageExplanations::swept() const {
  return requests_where([&](const Request& request) {
    return needs_all_gradients(request.method) ||
           (request.method == Method::hydra && !is_of_readout(request));
  });
}

std::int64_t ImageExplanations::lowest_of(const Indices& swept) const {
  std::int64_t lowest = swept.empty() ? last_ + 1 : last_;
  for (const std::size_t i : swept)
    lowest = is_rollout(requests_[i].method) ? 0 : std::min(lowest, requests_[i].layer);
  return lowest;
}

bool ImageExplanations::has_rows(std::int64_t layer) const {
  return std::ranges::any_of(requests_, [&](const Request& request) {
    return request.layer == layer &&
           (request.method == Method::attention || is_of_readout(request));
  });
}

bool ImageExplanations::is_of_readout(const Request& request) const {
  return request.method == Method::hydra && request.layer == last_ && readout_.of_prefix();
}

const MechanismEntry& ImageExplanations::mechanism(std::int64_t layer) const {
  return find_mechanism(config_.attention_of(layer).mechanism);
}

Tensor ImageExplanations::first_row(const Tensor& like) const {
  return readout_.weights(grid_.num_tokens(), like.options());
}

void ImageExplanations::explain_rows(std::int64_t layer) {
  const Indices attention = requests_where([&](const Request& request) {
    return request.method == Method::attention && request.layer == layer;
  });
  const Indices contributions = requests_where(
      [&](const Request& request) { return request.layer == layer && is_of_readout(request); });
  if (!has_rows(layer)) return;
  begin_step();
  const Tensor tokens = model_.tokens_of(traced_, layer);
  FrameMemory* const of_attention = model_.frames_of(layer, Method::attention);
  // A memory may look at all of the prefix.
  const std::int64_t num_queries =
      of_attention != nullptr ? std::max(readout_.end(), grid_.num_prefix) : readout_.end();
  const MixerInputs inputs =
      project_tokens(block(layer), tokens, num_queries, /*with_values=*/!contributions.empty());
  // The keys' features take the time, and both methods read the same rows.
  Tensor rows;
  if (of_attention == nullptr && readout_.of_prefix() && mechanism(layer).has_map) {
    rows = block(layer).attention().mixer().attention_rows(inputs.q, inputs.k, grid_, 0,
                                                           readout_.count);
  }
  if (!attention.empty()) attend(layer, of_attention, inputs, rows, attention);
  if (!contributions.empty())
    contribute(tokens, model_.frames_of(layer, Method::hydra), inputs, rows, contributions);
  ++layers_done_;
}

void ImageExplanations::attend(std::int64_t layer, FrameMemory* frames, const MixerInputs& inputs,
                               const Tensor& rows, const Indices& indices) {
  TokenMixer& mixer = block(layer).attention().mixer();
  FrameParts parts;
  if (frames != nullptr) {
    // A local term is no part of the map. With values of one a token's contribution to a feature is its
    // weight; any feature tells.
    const MixerInputs ones{inputs.q, inputs.k, at::ones_like(inputs.k)};
    Tensor g =
        at::zeros({1, readout_.count, config_.num_heads, config_.head_dim()}, inputs.k.options());
    g.select(-1, 0).fill_(1 / static_cast<double>(readout_.count));
    parts = parts_of(mixer.global_part(), *frames, ones, grid_, g.flatten(2));
    frames->join(mixer.global_part(), ones.q, ones.k, ones.v, grid_);
  } else if (rows.defined()) {
    parts.own = rows.mean(2);
  } else {
    parts.own =
        pull_through_map(mechanism(layer), mixer, inputs, grid_, first_row(inputs.k)).unsqueeze(0);
  }
  for (const std::size_t i : indices) finish_heads(i, parts, 0, /*average=*/true);
}

void ImageExplanations::contribute(const Tensor& tokens, FrameMemory* frames,
                                   const MixerInputs& inputs, const Tensor& rows,
                                   const Indices& indices) {
  const auto& [q, k, v] = inputs;
  const std::vector<std::int64_t> classes = classes_of(indices);
  TokenMixer& mixer = block(last_).attention().mixer();
  Tensor mixed;
  if (frames != nullptr)
    mixed = frames->look(mixer, q, k, v, grid_, Kernels::automatic).narrow(1, 0, readout_.count);
  else
    mixed = rows.defined() ? merge_heads(rows.matmul(v))
                           : mixer.mix_rows(q, k, v, grid_, 0, readout_.count);
  const Tensor g = gradient_behind(*model_.model, tokens, mixed, classes);
  FrameParts parts;
  if (frames != nullptr) {
    parts = parts_of(mixer, *frames, inputs, grid_, g);
    frames->join(mixer, q, k, v, grid_);
  } else {
    const Tensor weighted = rows.defined()
                                ? rows * head_products(g, v)
                                : mixer.weighted_rows(q, k, v, g, grid_, 0, readout_.count);
    parts.own = weighted.sum(2);
  }
  for (const std::size_t i : indices) {
    const auto c = std::ranges::lower_bound(classes, requests_[i].class_index) - classes.begin();
    finish_heads(i, parts, c, /*average=*/false);
  }
}

void ImageExplanations::finish_heads(std::size_t index, const FrameParts& parts, std::int64_t which,
                                     bool average) {
  const auto of = [&](const Tensor& all) {
    if (!all.defined()) return all;
    const Tensor heads = all[which];
    if (requests_[index].per_head) return heads;
    return average ? heads.mean(0, /*keepdim=*/true) : heads.sum(0, /*keepdim=*/true);
  };
  finish(index, of(parts.own), of(parts.earlier));
}

void ImageExplanations::roll_maps(MaplessLayers mapless) {
  const Indices indices = rolled_by(mapless);
  // Each rollout starts at its layer; from there on all share queries and keys.
  std::vector<Tensor> rolled(requests_.size());
  for (std::int64_t layer = highest_of(indices); layer >= 0; --layer, ++layers_done_) {
    begin_step();
    const Tensor tokens = model_.tokens_of(traced_, layer);
    const MixerInputs inputs =
        project_tokens(block(layer), tokens, grid_.num_tokens(), /*with_values=*/false);
    for (const std::size_t i : indices) {
      if (requests_[i].layer < layer) continue;
      const Tensor r = requests_[i].layer == layer ? first_row(tokens) : rolled[i];
      rolled[i] =
          roll(mechanism(layer), block(layer).attention().mixer(), inputs, grid_, mapless, r);
    }
  }
  for (const std::size_t i : indices) finish(i, rolled[i].unsqueeze(0));
}

void ImageExplanations::sweep() {
  const Indices indices = swept();
  if (indices.empty()) return;
  const std::vector<std::int64_t> classes = classes_of(indices);
  const std::int64_t lowest = lowest_of(indices);
  auto depth_there = GradientSweep::Depth::mixed;
  for (const std::size_t i : indices) {
    if (requests_[i].layer != lowest || is_rollout(requests_[i].method)) continue;
    depth_there = std::max(depth_there, requests_[i].method == Method::gradcam
                                            ? GradientSweep::Depth::input
                                            : GradientSweep::Depth::values);
  }
  std::vector<Tensor> rolled(requests_.size());
  GradientSweep gradients(*model_.model, grid_, classes, [this] { begin_step(); });
  for (std::int64_t layer = last_; layer >= lowest; --layer, ++layers_done_) {
    const Tensor tokens = model_.tokens_of(traced_, layer);
    const SweptBlock swept =
        gradients.step(tokens, layer > lowest ? GradientSweep::Depth::input : depth_there);
    explain_swept(layer, tokens, swept, classes, indices, rolled);
  }
  for (const std::size_t i : indices)
    if (rolled[i].defined()) finish(i, rolled[i].unsqueeze(0));
}

void ImageExplanations::explain_swept(std::int64_t layer, const Tensor& tokens,
                                      const SweptBlock& swept,
                                      std::span<const std::int64_t> classes, const Indices& indices,
                                      std::vector<Tensor>& rolled) {
  for (const std::size_t i : indices) {
    const Request& request = requests_[i];
    const auto c = std::ranges::lower_bound(classes, request.class_index) - classes.begin();
    const BlockGradient& gradient = swept.of_class[static_cast<std::size_t>(c)];
    if (is_rollout(request.method)) {
      if (layer > request.layer) continue;
      begin_step();
      if (!rolled[i].defined()) rolled[i] = first_row(tokens);
      rolled[i] = roll_gradient(request.method, block(layer).attention().mixer(), swept.inputs,
                                gradient.mixed, grid_, rolled[i]);
      continue;
    }
    if (layer != request.layer) continue;
    if (request.method == Method::gradcam) {
      finish(i, class_activation(block(layer), tokens, gradient.normalised, grid_).unsqueeze(0));
      continue;
    }
    finish_heads(i, {(swept.inputs.v * gradient.values).sum(-1), {}}, 0, /*average=*/false);
  }
}

void ImageExplanations::finish(std::size_t index, const Tensor& heat, const Tensor& earlier) {
  const Request& request = requests_[index];
  const Tensor all = heat.to(at::kCPU, at::kFloat).contiguous();
  Explanation& explanation = explanations_[index];
  explanation.request = request;
  explanation.prefix = all.narrow(1, 0, grid_.num_prefix).clone();
  explanation.map = map_of(all, grid_);
  if (!request.per_head) {
    explanation.map = explanation.map.squeeze(0);
    explanation.prefix = explanation.prefix.squeeze(0);
  }
  explanation.total = all.sum(at::kDouble).item<double>();
  if (!model_.memory.empty()) {
    explanation.earlier = earlier.defined() ? earlier.to(at::kCPU, at::kFloat)
                                            : at::zeros({all.size(0)}, all.options());
    explanation.total += explanation.earlier.sum(at::kDouble).item<double>();
    if (!request.per_head) explanation.earlier = explanation.earlier.squeeze(0);
  }
  explanation.own_share = class_token_share(config_, explanation.map, explanation.prefix);
  explanation.is_signed = has_signs(request);
  explanation.note = note_of(request);
  if (!is_rollout(request.method)) return;
  for (std::int64_t layer = 0; layer <= request.layer; ++layer) {
    explanation.rules.push_back(request.method == Method::rollout
                                    ? rule_of_roll(mechanism(layer), request.mapless)
                                    : rule_of_roll_gradient(mechanism(layer)));
  }
}

bool ImageExplanations::has_signs(const Request& request) const {
  const auto signed_map = [&](std::int64_t layer) {
    return mechanism(layer).has_map && !mechanism(layer).non_negative;
  };
  if (request.method == Method::attention) return signed_map(request.layer);
  if (request.method != Method::rollout) return request.method == Method::hydra;
  for (std::int64_t layer = 0; layer <= request.layer; ++layer)
    if (mechanism(layer).rows_sum_to_one && signed_map(layer)) return true;
  return false;
}

std::string ImageExplanations::note_of(const Request& request) const {
  switch (request.method) {
    case Method::hydra:
      return request.layer == last_
                 ? ""
                 : "contributions to what layer " + std::to_string(request.layer) +
                       " mixes, along the gradient of what follows";
    case Method::gradcam:
      return request.layer == last_ && readout_.of_prefix()
                 ? "at norm1 of the last block: after its attention, patches have no gradient"
                 : "at norm1 of block " + std::to_string(request.layer);
    case Method::attention:
      return has_signs(request) ? "rows of " + mechanism(request.layer).name +
                                      " are signed: " + mechanism(request.layer).map_definition
                                : "";
    case Method::rollout: break;
    case Method::grad_rollout:
    case Method::attn_gradcam: return "";
  }
  std::vector<std::int64_t> mapless;
  for (std::int64_t layer = 0; layer <= request.layer; ++layer)
    if (!mechanism(layer).rows_sum_to_one) mapless.push_back(layer);
  std::string note;
  if (!mapless.empty())
    note = "layers without a map whose rows sum to one (" + layer_ranges(mapless) + ") are " +
           (request.mapless == MaplessLayers::skip ? "skipped" : "1 + cos of their q and k");
  if (has_signs(request))
    note += std::string(note.empty() ? "" : "; ") + "signed rows are among the maps";
  return note;
}

}  // namespace hydrascope::model::explain
