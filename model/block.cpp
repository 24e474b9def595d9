#include "model/block.h"

#include "kernels/error.h"
#include "kernels/number_text.h"
#include "model/activation_recomputation.h"

#include <vector>

namespace hydrascope::model {

MlpImpl::MlpImpl(const VitConfig& config, Initialisation initialisation)
    : gated_(config.swiglu_mlp), activation_(config.act) {
  const std::int64_t hidden = config.hidden_dim();
  fc1_ = register_module("fc1", make_linear(config.embed_dim, gated_ ? 2 * hidden : hidden,
                                            config.proj_bias, initialisation));
  if (config.scale_mlp) norm_ = register_module("norm", NormLayer(config, hidden));
  fc2_ = register_module("fc2",
                         make_linear(hidden, config.embed_dim, config.proj_bias, initialisation));
}

torch::Tensor MlpImpl::forward(const torch::Tensor& x) {
  torch::Tensor hidden = fc1_->forward(x);
  if (gated_) {
    const std::vector<torch::Tensor> halves = hidden.chunk(2, -1);
    hidden = at::silu(halves[0]) * halves[1];
  } else if (activation_ == Activation::quick_gelu) {
    constexpr double kSlope = 1.702;
    hidden = hidden * (kSlope * hidden).sigmoid();
  } else {
    hidden = at::gelu(hidden, activation_ == Activation::gelu ? "none" : "tanh");
  }
  return fc2_->forward(norm_.is_empty() ? hidden : norm_->forward(hidden));
}

LayerScaleImpl::LayerScaleImpl(std::int64_t embed_dim, double init_value) {
  gamma_ = register_parameter("gamma", torch::full({embed_dim}, init_value));
}

BranchScales draw_branch_scales(double rate, const torch::Tensor& x) {
  if (!(rate >= 0 && rate < 1)) {
    throw Error(ErrorCode::invalid_argument,
                "expected 0 or more and less than 1, found " + shortest_number(rate), "drop-path");
  }
  if (rate == 0) return {};
  const double keep = 1 - rate;
  const auto draw = [&] {
    return torch::empty({x.size(0), 1, 1}, x.options()).bernoulli_(keep).div_(keep);
  };
  torch::Tensor attention = draw();
  return {std::move(attention), draw()};
}

BlockImpl::BlockImpl(const VitConfig& config, std::int64_t layer_index,
                     Initialisation initialisation)
    : post_norm_(config.post_norm) {
  const std::int64_t dim = config.embed_dim;
  if (config.pos_embed == PosEmbed::layers && layer_index > 0) {
    const std::int64_t patches = config.grid_rows() * config.grid_columns();
    pos_embed_ = register_parameter("pos_embed", torch::zeros({1, patches, dim}));
  }
  norm1_ = register_module("norm1", NormLayer(config));
  attn_ = register_module("attn", Attention(config, layer_index, initialisation));
  if (config.layer_scale) ls1_ = register_module("ls1", LayerScale(dim, config.init_values));
  if (config.residual == Residual::gru)
    gate1_ = register_module("gate1", Gate(dim, initialisation));
  norm2_ = register_module("norm2", NormLayer(config));
  mlp_ = register_module("mlp", Mlp(config, initialisation));
  if (config.layer_scale) ls2_ = register_module("ls2", LayerScale(dim, config.init_values));
  if (config.residual == Residual::gru)
    gate2_ = register_module("gate2", Gate(dim, initialisation));
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x, const TokenGrid& grid, Kernels kernels,
                                 const BranchScales& scales, std::int64_t mlp_chunks) {
  return add_branches(x, attn_->forward(normalise(x), grid, kernels), scales, mlp_chunks);
}

torch::Tensor BlockImpl::complete(const torch::Tensor& x, const torch::Tensor& mixed,
                                  const BranchScales& scales, std::int64_t mlp_chunks) {
  return add_branches(x, attn_->project_out(mixed), scales, mlp_chunks);
}

torch::Tensor BlockImpl::scaled_attention(torch::Tensor attended, const torch::Tensor& scale) {
  if (post_norm_) attended = norm1_->forward(attended);
  if (!ls1_.is_empty()) attended = ls1_->forward(attended);
  return scale.defined() ? attended * scale : attended;
}

torch::Tensor BlockImpl::mlp_branch(const torch::Tensor& x, const torch::Tensor& scale,
                                    std::int64_t mlp_chunks) {
  auto expand = [norm = norm2_, mlp = mlp_,
                 behind = post_norm_](const torch::Tensor& part) mutable {
    return behind ? norm->forward(mlp->forward(part)) : mlp->forward(norm->forward(part));
  };
  torch::Tensor expanded;
  if (mlp_chunks > 1) {
    std::vector<torch::Tensor> weights = weights_of(*norm2_);
    for (torch::Tensor& weight : weights_of(*mlp_)) weights.push_back(std::move(weight));
    std::vector<torch::Tensor> parts;
    for (const torch::Tensor& part : x.chunk(mlp_chunks, 1))
      parts.push_back(recomputed_in_backward(expand, part, weights));
    expanded = at::cat(parts, 1);
  } else {
    expanded = expand(x);
  }
  if (!ls2_.is_empty()) expanded = ls2_->forward(expanded);
  return scale.defined() ? expanded * scale : expanded;
}

torch::Tensor BlockImpl::add_branches(const torch::Tensor& x, const torch::Tensor& attended,
                                      const BranchScales& scales, std::int64_t mlp_chunks) {
  const auto join = [](Gate& gate, const torch::Tensor& stream, const torch::Tensor& branch) {
    return gate.is_empty() ? stream + branch : gate->forward(stream, branch);
  };
  const torch::Tensor middle = join(gate1_, x, scaled_attention(attended, scales.attention));
  return join(gate2_, middle, mlp_branch(middle, scales.mlp, mlp_chunks));
}

}  // namespace hydrascope::model
