#include "model/block.h"

#include "kernels/error.h"
#include "kernels/number_text.h"

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
  norm2_ = register_module("norm2", NormLayer(config));
  mlp_ = register_module("mlp", Mlp(config, initialisation));
  if (config.layer_scale) ls2_ = register_module("ls2", LayerScale(dim, config.init_values));
}

torch::Tensor BlockImpl::forward(const torch::Tensor& x, const TokenGrid& grid, Kernels kernels,
                                 const BranchScales& scales) {
  return add_branches(x, attn_->forward(normalise(x), grid, kernels), scales);
}

torch::Tensor BlockImpl::complete(const torch::Tensor& x, const torch::Tensor& mixed) {
  return add_branches(x, attn_->project_out(mixed), {});
}

torch::Tensor BlockImpl::add_branches(const torch::Tensor& x, torch::Tensor attended,
                                      const BranchScales& scales) {
  if (post_norm_) attended = norm1_->forward(attended);
  if (!ls1_.is_empty()) attended = ls1_->forward(attended);
  if (scales.attention.defined()) attended = attended * scales.attention;
  const torch::Tensor middle = x + attended;
  torch::Tensor expanded =
      post_norm_ ? norm2_->forward(mlp_->forward(middle)) : mlp_->forward(norm2_->forward(middle));
  if (!ls2_.is_empty()) expanded = ls2_->forward(expanded);
  if (scales.mlp.defined()) expanded = expanded * scales.mlp;
  return middle + expanded;
}

}  // namespace hydrascope::model
