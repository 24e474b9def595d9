#include "model/block.h"

namespace hydrascope::model {

torch::nn::LayerNorm make_layer_norm(const VitConfig& config) {
  return torch::nn::LayerNorm(
      torch::nn::LayerNormOptions({config.embed_dim}).eps(config.layer_norm_eps));
}

MlpImpl::MlpImpl(std::int64_t embed_dim, std::int64_t hidden_dim, Initialisation initialisation) {
  fc1_ = register_module("fc1", make_linear(embed_dim, hidden_dim, true, initialisation));
  fc2_ = register_module("fc2", make_linear(hidden_dim, embed_dim, true, initialisation));
}

torch::Tensor MlpImpl::forward(const torch::Tensor& x) {
  return fc2_->forward(at::gelu(fc1_->forward(x)));
}

LayerScaleImpl::LayerScaleImpl(std::int64_t embed_dim, double init_value) {
  gamma_ = register_parameter("gamma", torch::full({embed_dim}, init_value));
}

BlockImpl::BlockImpl(const VitConfig& config, std::int64_t layer_index,
                     Initialisation initialisation) {
  const std::int64_t dim = config.embed_dim;
  norm1_ = register_module("norm1", make_layer_norm(config));
  attn_ = register_module("attn", Attention(config, layer_index, initialisation));
  if (config.layer_scale) ls1_ = register_module("ls1", LayerScale(dim, config.init_values));
  norm2_ = register_module("norm2", make_layer_norm(config));
  const auto hidden_dim = static_cast<std::int64_t>(static_cast<double>(dim) * config.mlp_ratio);
  mlp_ = register_module("mlp", Mlp(dim, hidden_dim, initialisation));
  if (config.layer_scale) ls2_ = register_module("ls2", LayerScale(dim, config.init_values));
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x, const TokenGrid& grid, Kernels kernels,
                                 AttentionTrace* trace) {
  return add_branches(x, attn_->forward(normalise(x), grid, kernels, trace));
}

torch::Tensor BlockImpl::complete(const torch::Tensor& x, const torch::Tensor& mixed) {
  return add_branches(x, attn_->project_out(mixed));
}

torch::Tensor BlockImpl::add_branches(const torch::Tensor& x, torch::Tensor attended) {
  if (!ls1_.is_empty()) attended = ls1_->forward(attended);
  const torch::Tensor middle = x + attended;
  torch::Tensor expanded = mlp_->forward(norm2_->forward(middle));
  if (!ls2_.is_empty()) expanded = ls2_->forward(expanded);
  return middle + expanded;
}

}  // namespace hydrascope::model
