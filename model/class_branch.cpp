#include "model/class_branch.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <vector>

namespace hydrascope::model {
namespace {

torch::nn::Linear linear(std::int64_t in, std::int64_t out) {
  return make_linear(in, out, true, Initialisation::random);
}

}  // namespace

ClassAttentionImpl::ClassAttentionImpl(const VitConfig& config) : num_heads_(config.num_heads) {
  qkv_ = register_module("qkv", linear(config.embed_dim, 3 * config.embed_dim));
  proj_ = register_module("proj", linear(config.embed_dim, config.embed_dim));
}

torch::Tensor ClassAttentionImpl::forward(const torch::Tensor& normalised) {
  const std::int64_t dim = normalised.size(2);
  const auto projected = [&](const torch::Tensor& x, std::int64_t part, std::int64_t parts) {
    return at::linear(x, qkv_->weight.narrow(0, part * dim, parts * dim),
                      qkv_->bias.narrow(0, part * dim, parts * dim));
  };
  const auto heads = [&](const torch::Tensor& x) {
    return to_compute_type(x.unflatten(-1, {num_heads_, dim / num_heads_}).transpose(1, 2));
  };
  const double scale = 1 / std::sqrt(static_cast<double>(dim / num_heads_));
  const torch::Tensor q = heads(projected(normalised.narrow(1, 0, 1), 0, 1));
  const std::vector<torch::Tensor> kv = projected(normalised, 1, 2).chunk(2, -1);
  const torch::Tensor map = (q * scale).matmul(heads(kv[0]).transpose(-2, -1)).softmax(-1);
  const torch::Tensor mixed = map.matmul(heads(kv[1])).transpose(1, 2).flatten(1);
  return proj_->forward(mixed.to(normalised.scalar_type()));
}

ClassBlockImpl::ClassBlockImpl(const VitConfig& config) {
  norm1_ = register_module("norm1", NormLayer(config));
  attn_ = register_module("attn", ClassAttention(config));
  norm2_ = register_module("norm2", NormLayer(config));
  mlp_ = register_module("mlp", Mlp(config));
}

torch::Tensor ClassBlockImpl::forward(const torch::Tensor& c, const torch::Tensor& others) {
  const torch::Tensor tokens = at::cat({c.unsqueeze(1), others}, 1);
  const torch::Tensor middle = c + attn_->forward(norm1_->forward(tokens));
  return middle + mlp_->forward(norm2_->forward(middle));
}

ClassBranchImpl::ClassBranchImpl(const VitConfig& config) : depth_(config.depth) {
  blocks_ = register_module("blocks", torch::nn::ModuleDict());
  torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>> blocks;
  for (std::int64_t layer = config.exits.front() + 1; layer < depth_; ++layer)
    blocks.insert(std::to_string(layer), ClassBlock(config).ptr());
  blocks_->update(blocks);
  norm_ = register_module("norm", NormLayer(config));
  head_ = register_module("head", linear(config.embed_dim, config.num_classes));
  stop_ = register_module("stop", linear(config.embed_dim, 1));
}

ExitOutput ClassBranchImpl::forward(const torch::Tensor& tokens, std::int64_t layer) {
  const torch::Tensor others = tokens.slice(1, 1);
  torch::Tensor c = tokens.select(1, 0);
  for (std::int64_t next = layer + 1; next < depth_; ++next)
    c = blocks_->at<ClassBlockImpl>(std::to_string(next)).forward(c, others);
  ExitOutput output;
  output.features = norm_->forward(c);
  output.logits = to_compute_type(head_->forward(output.features));
  output.stop = to_compute_type(stop_->forward(output.features.detach())).squeeze(1);
  return output;
}

void start_from_trunk(ClassBranchImpl& branch, const WeightTable& trunk) {
  const at::NoGradGuard no_grad;
  for (const auto& item : branch.named_parameters()) {
    const std::string& name = item.key();
    at::Tensor target = item.value();
    if (name.starts_with("stop.") || !trunk.has(name)) {
      target.zero_();  // also the bias of queries, keys and values in a trunk without one
      continue;
    }
    at::Tensor value = trunk.get(name).to(at::kFloat);
    for (const auto& [linear, scale] :
         {std::pair{".attn.proj.", ".ls1.gamma"}, {".mlp.fc2.", ".ls2.gamma"}}) {
      const std::size_t at = name.find(linear);
      if (at == std::string::npos || !trunk.has(name.substr(0, at) + scale)) continue;
      const at::Tensor gamma = trunk.get(name.substr(0, at) + scale).to(at::kFloat);
      value = value * (value.dim() == 2 ? gamma.unsqueeze(1) : gamma);
    }
    target.copy_(value);
  }
}

}  // namespace hydrascope::model
