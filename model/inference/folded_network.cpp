#include "model/inference/folded_network.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <utility>

namespace hydrascope::model::inference {
namespace {

using at::Tensor;

/// The tensors whose names begin with `prefix`, in float64. The table must outlive it.
class Below {
 public:
  Below(const WeightTable& weights, std::string prefix)
      : weights_(&weights), prefix_(std::move(prefix)) {}

  [[nodiscard]] bool has(const std::string& name) const { return weights_->has(prefix_ + name); }
  [[nodiscard]] Tensor get(const std::string& name) const {
    // Modules are float32, whatever a file holds.
    return weights_->get(prefix_ + name).to(at::kFloat).to(at::kDouble);
  }
  [[nodiscard]] Affine linear(const std::string& name) const {
    Affine linear{get(name + ".weight"), {}};
    linear.bias =
        has(name + ".bias") ? get(name + ".bias") : at::zeros({linear.weight.size(0)}, at::kDouble);
    return linear;
  }
  /// RMSNorm has no bias.
  [[nodiscard]] FoldedNorm norm(const std::string& name) const {
    FoldedNorm norm{get(name + ".weight"), {}};
    norm.bias = has(name + ".bias") ? get(name + ".bias") : at::zeros_like(norm.weight);
    return norm;
  }

 private:
  const WeightTable* weights_;
  std::string prefix_;
};

/// linear(norm(x)) with the norm's weight and bias taken in.
Affine behind_norm(const Affine& linear, const FoldedNorm& norm) {
  return {linear.weight * norm.weight, linear.bias + linear.weight.mv(norm.bias)};
}

/// scale * linear(x), by output feature.
Affine scaled(const Affine& linear, const Tensor& scale) {
  return {linear.weight * scale.unsqueeze(1), linear.bias * scale};
}

Affine rows(const Affine& linear, std::int64_t first, std::int64_t count) {
  return {linear.weight.narrow(0, first, count), linear.bias.narrow(0, first, count)};
}

/// scale * network(linear(x)) of every head.
Affine through(const HeadNetwork& network, const Affine& linear, std::int64_t num_heads) {
  if (!network.weight.defined() && network.scale == 1) return linear;
  if (!network.weight.defined())
    return {linear.weight * network.scale, linear.bias * network.scale};
  Tensor weight = network.weight.detach().to(at::kDouble);  // (H, d, w)
  if (weight.dim() == 2) weight = weight.unsqueeze(0).expand({num_heads, -1, -1});
  const Tensor transposed = weight.transpose(1, 2);  // (H, w, d)
  const Tensor heads = linear.weight.view({num_heads, weight.size(1), -1});
  Tensor bias = transposed.matmul(linear.bias.view({num_heads, -1, 1})).squeeze(-1);
  if (network.bias.defined()) bias = bias + network.bias.detach().to(at::kDouble);
  return {transposed.matmul(heads).flatten(0, 1) * network.scale, bias.flatten() * network.scale};
}

Affine stacked(const Affine& a, const Affine& b) {
  return {at::cat({a.weight, b.weight}), at::cat({a.bias, b.bias})};
}

}  // namespace

FoldedNorm fold_norm(const WeightTable& weights, const std::string& name) {
  const at::NoGradGuard no_grad;
  return Below(weights, "").norm(name);
}

FoldedBlock fold_block(const WeightTable& weights, std::int64_t layer, AttentionImpl& attention,
                       const KernelForm* form) {
  const at::NoGradGuard no_grad;
  const VitConfig& config = weights.config();
  const Below parameters(weights, block_prefix(config.block_of(layer)));
  const std::int64_t dim = config.embed_dim;
  const std::int64_t heads = config.num_heads;
  const bool post_norm = config.post_norm;
  const auto behind = [parameters, post_norm](const Affine& linear, const std::string& norm) {
    return post_norm ? linear : behind_norm(linear, parameters.norm(norm));
  };
  const Affine qkv = parameters.linear("attn.qkv");
  Affine query = rows(qkv, 0, dim);
  if (attention.query_is_input())
    query = {at::eye(dim, at::kDouble), at::zeros({dim}, at::kDouble)};
  Affine key = rows(qkv, dim, dim);
  if (form != nullptr) {
    query = through(form->query(config.head_dim()), query, heads);
    key = through(form->key(config.head_dim()), key, heads);
  }
  FoldedBlock block;
  // One product, because the table reads a tensor each time that somebody asks.
  const std::int64_t query_width = query.weight.size(0);
  const Affine all = behind(stacked(query, stacked(key, rows(qkv, 2 * dim, dim))), "norm1");
  block.query = rows(all, 0, query_width);
  block.key_value = rows(all, query_width, all.weight.size(0) - query_width);

  const auto residual = [parameters, post_norm](const std::string& name, const std::string& scale) {
    const Affine linear = parameters.linear(name);
    return parameters.has(scale) && !post_norm ? scaled(linear, parameters.get(scale)) : linear;
  };
  const auto norm_behind = [&](const std::string& norm, const std::string& scale) {
    const FoldedNorm folded = parameters.norm(norm);
    if (!parameters.has(scale)) return folded;
    const Tensor gamma = parameters.get(scale);
    return FoldedNorm{folded.weight * gamma, folded.bias * gamma};
  };
  if (post_norm) {
    block.norm1 = norm_behind("norm1", "ls1.gamma");
    block.norm2 = norm_behind("norm2", "ls2.gamma");
  }
  block.proj = [residual, parameters] {
    const Affine proj = residual("attn.proj", "ls1.gamma");
    return parameters.has("attn.norm.weight") ? behind_norm(proj, parameters.norm("attn.norm"))
                                              : proj;
  };
  block.fc1 = [behind, parameters] { return behind(parameters.linear("mlp.fc1"), "norm2"); };
  block.fc2 = [residual, parameters] {
    const Affine fc2 = residual("mlp.fc2", "ls2.gamma");
    return parameters.has("mlp.norm.weight") ? behind_norm(fc2, parameters.norm("mlp.norm")) : fc2;
  };
  return block;
}

namespace {

FoldedPool fold_pool(const WeightTable& weights) {
  const VitConfig& config = weights.config();
  const Below parameters(weights, "attn_pool.");
  const std::int64_t heads = config.heads_of_pool();
  const std::int64_t dim = config.embed_dim;
  const Affine query = parameters.linear("q");
  const Affine kv = parameters.linear("kv");
  const Tensor q = query.weight.mv(parameters.get("latent").flatten()) + query.bias;
  // A row for each head: q_h^T W_k,h.
  const Tensor scores =
      q.view({heads, 1, -1}).matmul(kv.weight.narrow(0, 0, dim).view({heads, -1, dim})).squeeze(1);
  FoldedPool pool;
  pool.score = {scores / std::sqrt(static_cast<double>(dim) / static_cast<double>(heads)),
                at::zeros({heads}, at::kDouble)};
  pool.value = rows(kv, dim, dim);
  pool.proj = parameters.linear("proj");
  pool.fc1 = behind_norm(parameters.linear("mlp.fc1"), parameters.norm("norm"));
  pool.fc2 = parameters.linear("mlp.fc2");
  return pool;
}

}  // namespace

FoldedHead fold_head(const WeightTable& weights) {
  const at::NoGradGuard no_grad;
  const VitConfig& config = weights.config();
  const Below parameters(weights, "");
  FoldedHead head;
  if (config.final_norm) head.norm = parameters.norm(config.fc_norm ? "fc_norm" : "norm");
  if (config.global_pool == Pooling::map) head.pool = fold_pool(weights);
  if (config.num_classes == 0) return head;
  head.classifier = parameters.linear("head");
  if (config.distilled) head.distilled = parameters.linear("head_dist");
  return head;
}

FoldedExits fold_exits(const WeightTable& weights) {
  const at::NoGradGuard no_grad;
  const VitConfig& config = weights.config();
  const std::int64_t dim = config.embed_dim;
  const std::int64_t width = config.head_dim();
  FoldedExits exits;
  for (std::int64_t layer = config.exits.front() + 1; layer < config.depth; ++layer) {
    const Below parameters(weights, "exits." + block_prefix(layer));
    const FoldedNorm norm = parameters.norm("norm1");
    const Affine qkv = parameters.linear("attn.qkv");
    FoldedClassBlock block;
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    block.query = behind_norm(rows(qkv, 0, dim), norm);
    block.query = {block.query.weight * scale, block.query.bias * scale};
    for (std::int64_t head = 0; head < config.num_heads; ++head) {
      const Tensor key = qkv.weight.narrow(0, dim + head * width, width) * norm.weight;
      block.keys.push_back({key.t().contiguous(), at::zeros({dim}, at::kDouble)});
    }
    block.value = behind_norm(rows(qkv, 2 * dim, dim), norm);
    block.proj = parameters.linear("attn.proj");
    block.fc1 = behind_norm(parameters.linear("mlp.fc1"), parameters.norm("norm2"));
    block.fc2 = parameters.linear("mlp.fc2");
    exits.blocks.push_back(std::move(block));
  }
  const Below parameters(weights, "exits.");
  exits.norm = parameters.norm("norm");
  exits.classifier = parameters.linear("head");
  exits.stop = parameters.linear("stop");
  return exits;
}

Affine fold_patch_embed(const WeightTable& weights) {
  const at::NoGradGuard no_grad;
  Affine embed = Below(weights, "patch_embed.").linear("proj");
  embed.weight = embed.weight.flatten(1);
  return embed;
}

}  // namespace hydrascope::model::inference
