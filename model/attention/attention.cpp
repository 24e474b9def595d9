#include "model/attention/attention.h"

#include "kernels/error.h"
#include "model/attention/memories/frame_memory.h"
#include "model/attention/pieces.h"
#include "model/autocast_guard.h"
#include "model/registry/positions.h"

namespace hydrascope::model {

namespace {

/// The module that owns the last part of "feature_map.weight" below `root`, made when it is not
/// there, and that last part: a parameter's own name may hold no dot.
std::pair<torch::nn::Module*, std::string> owner_of(torch::nn::Module& root,
                                                    const std::string& name) {
  const auto dot = name.find('.');
  if (dot == std::string::npos) return {&root, name};
  const std::string child = name.substr(0, dot);
  for (const auto& item : root.named_children()) {
    if (item.key() == child) return owner_of(*item.value(), name.substr(dot + 1));
  }
  return owner_of(*root.register_module(child, std::make_shared<torch::nn::Module>(child)),
                  name.substr(dot + 1));
}

}  // namespace

torch::Tensor TokenMixerArguments::add_parameter(const std::string& name,
                                                 torch::Tensor value) const {
  const auto [module, leaf] = owner_of(owner, name);
  return module->register_parameter(leaf, std::move(value));
}

torch::Tensor TokenMixerArguments::add_buffer(const std::string& name, torch::Tensor value) const {
  const auto [module, leaf] = owner_of(owner, name);
  return module->register_buffer(leaf, std::move(value));
}

torch::Tensor TokenMixer::mix_rows(const torch::Tensor& q, const torch::Tensor& k,
                                   const torch::Tensor& v, const TokenGrid& grid,
                                   std::int64_t first, std::int64_t count) {
  const torch::Tensor rows = attention_rows(q, k, grid, first, count);
  const ScoredPairs pairs{position(), pairs_of_rows(grid, first, count)};
  const torch::Tensor y = pairs.mixed(rows.unsqueeze(1), v.unsqueeze(1), q.size(3)).squeeze(1);
  return merge_heads(y).to(v.scalar_type());
}

torch::Tensor TokenMixer::mix_state(const torch::Tensor&, const torch::Tensor&,
                                    const torch::Tensor&, const TokenGrid&,
                                    const std::function<void(MixerState&)>&) {
  throw Error(ErrorCode::internal, "the mechanism has no state");
}

torch::Tensor TokenMixer::mix_beside(const torch::Tensor&, const torch::Tensor&,
                                     const torch::Tensor&, const TokenGrid&, const OtherTokens&) {
  throw Error(ErrorCode::internal, "the mechanism takes no other tokens");
}

torch::Tensor TokenMixer::mix_by_rows(const torch::Tensor& q, const torch::Tensor& k,
                                      const torch::Tensor& v, const TokenGrid& grid) {
  return rows_in_pieces(q, [&](std::int64_t first, std::int64_t count) {
    return mix_rows(q, k, v, grid, first, count);
  });
}

torch::Tensor TokenMixer::weighted_rows(const torch::Tensor& q, const torch::Tensor& k,
                                        const torch::Tensor& v, const torch::Tensor& g,
                                        const TokenGrid& grid, std::int64_t first,
                                        std::int64_t count) {
  const torch::Tensor rows = attention_rows(q, k, grid, first, count);
  torch::Tensor products = head_products(g.to(rows.scalar_type()), v.to(rows.scalar_type()));
  if (position() != nullptr && position()->adds_values()) {
    const torch::Tensor by_head = split_heads(g.to(rows.scalar_type()), v.size(1)).unsqueeze(1);
    products = products +
               position()->value_products(by_head, pairs_of_rows(grid, first, count)).squeeze(1);
  }
  return rows * products;
}

torch::Tensor head_products(const torch::Tensor& g, const torch::Tensor& v) {
  const std::int64_t num_heads = v.size(1);
  if (v.size(0) != 1) return split_heads(g, num_heads).matmul(v.transpose(-2, -1));
  // As rows of one matrix: a product that broadcasts would copy v once for each of them.
  const torch::Tensor rows = split_heads(g.reshape({1, -1, g.size(2)}), num_heads);
  return rows.matmul(v.transpose(-2, -1))
      .unflatten(2, {g.size(0), g.size(1)})
      .squeeze(0)
      .transpose(0, 1);
}

AttentionImpl::AttentionImpl(const VitConfig& config, std::int64_t layer_index,
                             Initialisation initialisation)
    : layer_index_(layer_index), num_heads_(config.num_heads) {
  const std::int64_t dim = config.embed_dim;
  qkv_ = register_module("qkv", make_linear(dim, 3 * dim, config.qkv_bias, initialisation));
  if (config.scale_attn) norm_ = register_module("norm", NormLayer(config));
  proj_ = register_module("proj", make_linear(dim, dim, config.proj_bias, initialisation));
  const AttentionSpec spec = config.attention_of(layer_index);
  const MechanismEntry& entry = find_mechanism(spec.mechanism);
  query_is_input_ = entry.query_is_input;
  TokenMixerArguments arguments{config.num_heads,
                                config.head_dim(),
                                layer_index,
                                config.depth,
                                config.training_grid(),
                                spec,
                                *this};
  if (const PositionSpec rule = config.rel_pos_of(layer_index); rule.rule != kNoRule) {
    TokenMixerArguments of_rule = arguments;
    of_rule.options = position_options(rule);
    of_rule.pos_interp = config.pos_interp;
    arguments.position = find_position_rule(rule.rule).make(of_rule);
  }
  mixer_ = entry.make(arguments);
}

void AttentionImpl::remember(const MemorySpec& memory) {
  if (memory.memory == kNoMemory) return;
  auto mixer = std::make_unique<RememberingMixer>(
      std::move(mixer_), find_memory(memory.memory).make(memory_options(memory)));
  remembering_ = mixer.get();
  mixer_ = std::move(mixer);
}

void AttentionImpl::forget() {
  if (remembering_ != nullptr) remembering_->forget();
}

AttentionImpl::Projected AttentionImpl::project(const torch::Tensor& x, std::int64_t queries) {
  // Memory order of qkv's rows is [3][H][d]. Without a query projection the first of the three
  // stays in the checkpoint and out of the computation.
  const bool queries_apart = query_is_input_ || queries < x.size(1);
  const std::int64_t unused = queries_apart ? x.size(2) : 0;
  const std::int64_t used = 3 * x.size(2) - unused;
  const torch::Tensor bias =
      qkv_->bias.defined() ? qkv_->bias.narrow(0, unused, used) : torch::Tensor();
  auto parts = at::linear(x, qkv_->weight.narrow(0, unused, used), bias)
                   .view({x.size(0), x.size(1), used / x.size(2), num_heads_, -1})
                   .permute({2, 0, 3, 1, 4})
                   .unbind(0);
  if (!queries_apart) return {parts[0], parts[1], parts[2]};
  // Under autocast the projection's type is not the input's.
  const torch::Tensor query =
      project(x.narrow(1, 0, queries), Part::query).to(parts.back().scalar_type());
  return {query, parts[0], parts[1]};
}

torch::Tensor AttentionImpl::project(const torch::Tensor& x, Part part) {
  if (part == Part::query && query_is_input_) return split_heads(x, num_heads_);
  const std::int64_t dim = x.size(2);
  const std::int64_t first = static_cast<std::int64_t>(part) * dim;
  const torch::Tensor bias =
      qkv_->bias.defined() ? qkv_->bias.narrow(0, first, dim) : torch::Tensor();
  return split_heads(at::linear(x, qkv_->weight.narrow(0, first, dim), bias), num_heads_);
}

AttentionTrace AttentionImpl::trace(const torch::Tensor& x, const TokenGrid& grid,
                                    Kernels kernels) {
  if (x.dim() != 3 || x.size(1) != grid.num_tokens()) {
    throw Error(ErrorCode::internal,
                "expected (B, " + std::to_string(grid.num_tokens()) + ", D) tokens, found " +
                    c10::str(x.sizes()),
                "blocks." + std::to_string(layer_index_) + ".attn");
  }
  const auto [q, k, v] = project(x);
  // Mixers choose their types. Autocast would sum over tokens in a half type, and have the backward
  // pass, where it is off, meet other types than the forward pass had.
  const AutocastGuard off(x.device().type(), {});
  return {q, k, v, mixer_->mix(q, k, v, grid, kernels)};
}

torch::Tensor AttentionImpl::mix(const torch::Tensor& x, const TokenGrid& grid,
                                 std::int64_t count) {
  if (count == x.size(1)) return trace(x, grid, Kernels::automatic).output;
  const auto [q, k, v] = project(x, mixer_->needs_all_queries() ? x.size(1) : count);
  const AutocastGuard off(x.device().type(), {});
  return mixer_->mix_rows(q, k, v, grid, 0, count);
}

}  // namespace hydrascope::model
