#include "model/vision_transformer.h"

#include "kernels/error.h"
#include "kernels/input_file.h"
#include "model/activation_recomputation.h"
#include "model/coarse_exit.h"
#include "model/position_embedding.h"

#include <torch/nn/init.h>

#include <cmath>
#include <vector>

namespace hydrascope::model {
namespace {

torch::Tensor normal_parameter(torch::IntArrayRef shape) {
  return torch::nn::init::normal_(torch::empty(shape), 0.0, kInitStd);
}

}  // namespace

PatchEmbedImpl::PatchEmbedImpl(const VitConfig& config) {
  proj_ = register_module(
      "proj", torch::nn::Conv2d(
                  torch::nn::Conv2dOptions(config.in_chans, config.embed_dim, config.patch_size)
                      .stride(config.patch_size)
                      .bias(config.patch_bias)));
  if (config.patch_norm) norm_ = register_module("norm", NormLayer(config));
}

torch::Tensor PatchEmbedImpl::forward(const torch::Tensor& images) {
  const torch::Tensor patches = proj_->forward(images).flatten(2).transpose(1, 2);
  return norm_.is_empty() ? patches : norm_->forward(patches);
}

AttentionPoolImpl::AttentionPoolImpl(const VitConfig& config) : num_heads_(config.heads_of_pool()) {
  const std::int64_t dim = config.embed_dim;
  const auto linear = [&](std::int64_t out) {
    return make_linear(dim, out, true, Initialisation::random);
  };
  latent_ = register_parameter("latent", normal_parameter({1, 1, dim}));
  q_ = register_module("q", linear(dim));
  kv_ = register_module("kv", linear(2 * dim));
  proj_ = register_module("proj", linear(dim));
  norm_ = register_module("norm", NormLayer(config));
  mlp_ = register_module("mlp", Mlp(config));
}

torch::Tensor AttentionPoolImpl::forward(const torch::Tensor& tokens) {
  const std::int64_t dim = tokens.size(2);
  const auto heads = [&](const torch::Tensor& x) {
    return x.unflatten(-1, {num_heads_, dim / num_heads_}).transpose(1, 2);
  };
  const torch::Tensor q = heads(q_->forward(latent_.to(tokens.scalar_type())));
  const std::vector<torch::Tensor> kv = kv_->forward(tokens).chunk(2, -1);
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const torch::Tensor map = (to_compute_type(q) * scale)
                                .matmul(to_compute_type(heads(kv[0])).transpose(-2, -1))
                                .softmax(-1);
  const torch::Tensor mixed = map.matmul(to_compute_type(heads(kv[1]))).to(tokens.scalar_type());
  const torch::Tensor y = proj_->forward(mixed.transpose(1, 2).flatten(2));
  return (y + mlp_->forward(norm_->forward(y))).squeeze(1);
}

VisionTransformerImpl::VisionTransformerImpl(VitConfig config, Initialisation initialisation)
    : config_(std::move(config)) {
  validate(config_);
  config_.attention = with_all_options(std::move(config_.attention), config_.training_grid());
  config_.rel_pos = with_all_options(std::move(config_.rel_pos));
  const std::int64_t dim = config_.embed_dim;
  if (config_.class_token)
    cls_token_ = register_parameter("cls_token", normal_parameter({1, 1, dim}));
  if (config_.distilled)
    dist_token_ = register_parameter("dist_token", normal_parameter({1, 1, dim}));
  if (config_.reg_tokens > 0) {
    reg_token_ = register_parameter("reg_token", normal_parameter({1, config_.reg_tokens, dim}));
  }
  const std::int64_t embedded_prefix = config_.no_embed_class ? 0 : config_.num_prefix_tokens();
  const std::int64_t patches = config_.grid_rows() * config_.grid_columns();
  if (has_table(config_.pos_embed)) {
    pos_embed_ =
        register_parameter("pos_embed", normal_parameter({1, embedded_prefix + patches, dim}));
  }
  patch_embed_ = register_module("patch_embed", PatchEmbed(config_));
  if (config_.norm_pre) norm_pre_ = register_module("norm_pre", NormLayer(config_));
  blocks_ = register_module("blocks", torch::nn::ModuleList());
  for (std::int64_t layer = 0; layer < config_.num_blocks(); ++layer) {
    if (initialisation == Initialisation::random) throw_if_stopped();  // it takes seconds
    blocks_->push_back(Block(config_, layer, initialisation));
  }
  if (config_.fc_norm) {
    fc_norm_ = register_module("fc_norm", NormLayer(config_));
  } else if (config_.final_norm) {
    norm_ = register_module("norm", NormLayer(config_));
  }
  if (config_.global_pool == Pooling::map)
    attn_pool_ = register_module("attn_pool", AttentionPool(config_));
  // Random in any case: a checkpoint may lack the classifier.
  if (config_.num_classes == 0) return;
  head_ =
      register_module("head", make_linear(dim, config_.num_classes, true, Initialisation::random));
  if (config_.distilled) {
    head_dist_ = register_module(
        "head_dist", make_linear(dim, config_.num_classes, true, Initialisation::random));
  }
  if (!config_.branch_exits().empty()) exits_ = register_module("exits", ClassBranch(config_));
}

void VisionTransformerImpl::initialise_block(std::int64_t layer) {
  for (const auto& module : block(layer).modules(/*include_self=*/false))
    if (auto* linear = module->as<torch::nn::LinearImpl>()) initialise(*linear);
}

torch::Tensor VisionTransformerImpl::embed(const torch::Tensor& images, const TokenGrid& grid) {
  torch::Tensor patches = patch_embed_->forward(images);
  torch::Tensor pos_embed = position_embedding(pos_embed_, config_, grid);
  if (!pos_embed_.defined()) pos_embed = pos_embed.to(patches.options());
  if (grid.num_overview() > 0) {
    patches = torch::cat(
        {patches, patch_embed_->forward(overview_of(images, grid, config_.patch_size))}, 1);
  }
  if (config_.no_embed_class) patches = patches + pos_embed;
  std::vector<torch::Tensor> parts;
  for (const torch::Tensor& token : {cls_token_, dist_token_, reg_token_}) {
    if (token.defined()) parts.push_back(token.expand({images.size(0), -1, -1}));
  }
  torch::Tensor tokens = patches;
  if (!parts.empty()) {
    parts.push_back(patches);
    tokens = torch::cat(parts, 1);
  }
  if (!config_.no_embed_class) tokens = tokens + pos_embed;
  return norm_pre_.is_empty() ? tokens : norm_pre_->forward(tokens);
}

torch::Tensor VisionTransformerImpl::enter(std::int64_t layer, const torch::Tensor& tokens,
                                           const TokenGrid& grid) {
  if (config_.step_embed && config_.block_of(layer) == 0)
    return tokens +
           step_embedding(layer / config_.share_blocks + 1, config_.embed_dim).to(tokens.options());
  const torch::Tensor& table = block(layer).pos_embed();
  if (!table.defined()) return tokens;
  const torch::Tensor position = layer_position_embedding(table, config_, grid);
  // Prefix tokens lie nowhere.
  return tokens + at::constant_pad_nd(position, {0, 0, grid.num_prefix, 0});
}

TokenGrid VisionTransformerImpl::grid_of(const torch::Tensor& images) const {
  if (images.dim() != 4 || images.size(1) != config_.in_chans ||
      images.size(2) % config_.patch_size != 0 || images.size(3) % config_.patch_size != 0 ||
      images.size(2) == 0 || images.size(3) == 0) {
    throw Error(ErrorCode::internal,
                "expected (B, " + std::to_string(config_.in_chans) +
                    ", H, W) with H and W multiples of " + std::to_string(config_.patch_size) +
                    ", found " + c10::str(images.sizes()),
                config_.arch);
  }
  return config_.token_grid_of_pixels(images.size(2), images.size(3));
}

torch::Tensor VisionTransformerImpl::forward_features(const torch::Tensor& images,
                                                      const ForwardOptions& options) {
  const TokenGrid grid = grid_of(images);
  torch::Tensor x = embed(images, grid);
  const bool is_reversible = config_.residual == Residual::reversible;
  if (options.block_inputs != nullptr) {
    if (is_reversible || config_.halting)
      throw Error(ErrorCode::internal, "no layer has all tokens in one stream", config_.arch);
    options.block_inputs->clear();
  }
  if (is_reversible) return forward_norm(forward_streams(x, grid, options));
  const BlockRun whole = [grid, kernels = options.kernels, chunks = options.mlp_chunks](
                             BlockImpl& block, const torch::Tensor& input,
                             const BranchScales& scales) {
    return block.forward(input, grid, kernels, scales, chunks);
  };
  if (config_.halting) {
    HaltingCost cost;
    const auto layer_of = [&](std::int64_t layer, const torch::Tensor& some,
                              const torch::Tensor& visible) {
      const torch::Tensor input = enter(layer, some, grid);
      if (!visible.defined() && input.size(1) == grid.num_tokens())
        return forward_block(layer, input, options, whole);
      return forward_block(
          layer, input, options,
          [visible, chunks = options.mlp_chunks](BlockImpl& block, const torch::Tensor& seen,
                                                 const BranchScales& scales) {
            return block.complete(seen, mix_visible(block, seen, visible), scales, chunks);
          });
    };
    x = run_halting(config_, x, layer_of, is_training(), cost);
    if (options.halting != nullptr) *options.halting = std::move(cost);
    return forward_norm(x);
  }
  for (std::int64_t layer = 0; layer < config_.depth; ++layer) {
    x = enter(layer, x, grid);
    if (options.block_inputs != nullptr) options.block_inputs->push_back(x);
    x = forward_block(layer, x, options, whole);
  }
  return forward_norm(x);
}

BranchScales VisionTransformerImpl::scales_of(std::int64_t layer, const torch::Tensor& x,
                                              const ForwardOptions& options) const {
  if (!is_training() || layer == 0) return {};
  const double share = static_cast<double>(layer) / static_cast<double>(config_.depth - 1);
  return draw_branch_scales(share * options.drop_path_rate, x);
}

torch::Tensor VisionTransformerImpl::forward_block(std::int64_t layer, const torch::Tensor& x,
                                                   const ForwardOptions& options,
                                                   const BlockRun& run) {
  const auto block = blocks_->ptr<BlockImpl>(static_cast<std::size_t>(config_.block_of(layer)));
  const BranchScales scales = scales_of(layer, x, options);
  if (!options.recompute_blocks) return run(*block, x, scales);
  const auto again = [block, run, scales](const torch::Tensor& input) {
    return run(*block, input, scales);
  };
  return recomputed_in_backward(again, x, weights_of(*block));
}

torch::Tensor VisionTransformerImpl::forward_streams(const torch::Tensor& x, const TokenGrid& grid,
                                                     const ForwardOptions& options) {
  // Half types would lose in each block what the inverse has to find again.
  const torch::Tensor tokens = at::GradMode::is_enabled() ? to_compute_type(x) : x;
  std::vector<ReversibleBlock> blocks;
  for (std::int64_t layer = 0; layer < config_.depth; ++layer) {
    const auto block = blocks_->ptr<BlockImpl>(static_cast<std::size_t>(config_.block_of(layer)));
    const BranchScales scales = scales_of(layer, tokens, options);
    blocks.push_back(
        {[block, grid, kernels = options.kernels,
          scale = scales.attention](const torch::Tensor& input) {
           return block->attention_branch(input, grid, kernels, scale);
         },
         [block, scale = scales.mlp, chunks = options.mlp_chunks](const torch::Tensor& input) {
           return block->mlp_branch(input, scale, chunks);
         },
         weights_of(*block)});
  }
  const Streams y = run_reversible(blocks, {tokens, tokens});
  return (y.first + y.second) / 2;
}

torch::Tensor VisionTransformerImpl::forward_norm(const torch::Tensor& tokens) {
  return norm_.is_empty() ? tokens : norm_->forward(tokens);
}

torch::Tensor VisionTransformerImpl::forward_head(const torch::Tensor& tokens) {
  const HeadLogits logits = forward_heads(tokens);
  if (!logits.of_distillation.defined()) return logits.of_class;
  return (logits.of_class + logits.of_distillation) / 2;
}

HeadLogits VisionTransformerImpl::forward_heads(const torch::Tensor& tokens) {
  if (head_.is_empty()) return {forward_pool(tokens).narrow(1, 0, 0), {}};
  if (config_.distilled)
    return {head_->forward(tokens.select(1, 0)), head_dist_->forward(tokens.select(1, 1))};
  return {head_->forward(forward_pool(tokens)), {}};
}

torch::Tensor VisionTransformerImpl::forward_pool(const torch::Tensor& tokens) {
  if (config_.distilled) return (tokens.select(1, 0) + tokens.select(1, 1)) / 2;
  if (config_.global_pool == Pooling::token) return tokens.select(1, 0);
  const torch::Tensor patches = tokens.slice(1, config_.unpooled_tokens());
  if (config_.global_pool == Pooling::map) return attn_pool_->forward(patches);
  const torch::Tensor mean = patches.mean(1);
  return fc_norm_.is_empty() ? mean : fc_norm_->forward(mean);
}

ExitOutput VisionTransformerImpl::look_at_exit(std::int64_t layer, const torch::Tensor& tokens,
                                               const TokenGrid& grid, Kernels kernels) {
  if (!config_.coarse_exits) return exits_->forward(tokens, layer);
  torch::Tensor x = coarse_tokens(tokens, grid);
  for (std::int64_t next = layer + 1; next < config_.depth; ++next)
    x = block(next).forward(x, coarse(grid), kernels);
  x = forward_norm(x);
  ExitOutput output;
  output.features = forward_pool(x);
  output.logits = to_compute_type(forward_head(x));
  output.stop = at::zeros({x.size(0)}, output.logits.options());
  return output;
}

torch::Tensor VisionTransformerImpl::forward(const torch::Tensor& images,
                                             const ForwardOptions& options) {
  return forward_head(forward_features(images, options));
}

std::vector<std::pair<std::string, torch::Tensor>> named_tensors(
    const VisionTransformerImpl& model) {
  std::vector<std::pair<std::string, torch::Tensor>> table;
  for (const auto& item : model.named_parameters()) table.emplace_back(item.key(), item.value());
  for (const auto& item : model.named_buffers()) table.emplace_back(item.key(), item.value());
  return table;
}

}  // namespace hydrascope::model
