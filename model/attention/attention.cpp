#include "model/attention/attention.h"

#include "kernels/error.h"
#include "model/attention/registry.h"

namespace hydrascope::model {

torch::Tensor merge_heads(const torch::Tensor& x) { return x.transpose(1, 2).flatten(2); }

AttentionImpl::AttentionImpl(const VitConfig& config, std::int64_t layer_index)
    : layer_index_(layer_index), num_heads_(config.num_heads) {
  const std::int64_t dim = config.embed_dim;
  qkv_ = register_module(
      "qkv", torch::nn::Linear(torch::nn::LinearOptions(dim, 3 * dim).bias(config.qkv_bias)));
  proj_ = register_module("proj", torch::nn::Linear(dim, dim));
  const AttentionSpec spec = config.attention_of(layer_index);
  const TokenGrid training_grid{config.num_prefix_tokens(), config.grid_rows(),
                                config.grid_columns()};
  mixer_ = find_mechanism(spec.mechanism)
               .make({config.num_heads, config.head_dim(), layer_index, config.depth, training_grid,
                      spec, *this});
}

torch::Tensor AttentionImpl::forward(const torch::Tensor& x, const TokenGrid& grid, Kernels kernels,
                                     AttentionTrace* trace) {
  if (x.dim() != 3 || x.size(1) != grid.num_tokens()) {
    throw Error(ErrorCode::internal,
                "expected (B, " + std::to_string(grid.num_tokens()) + ", D) tokens, found " +
                    c10::str(x.sizes()),
                "blocks." + std::to_string(layer_index_) + ".attn");
  }
  // Memory order of qkv's rows is [3][H][d].
  const auto parts = qkv_->forward(x)
                         .view({x.size(0), x.size(1), 3, num_heads_, -1})
                         .permute({2, 0, 3, 1, 4})
                         .unbind(0);
  const torch::Tensor mixed = mixer_->mix(parts[0], parts[1], parts[2], grid, kernels);
  if (trace != nullptr) {
    trace->layer_index = layer_index_;
    trace->q = parts[0];
    trace->k = parts[1];
    trace->v = parts[2];
    trace->output = mixed;
    if (trace->want_map) trace->map = mixer_->attention_map(parts[0], parts[1], grid);
  }
  return proj_->forward(mixed);
}

}  // namespace hydrascope::model
