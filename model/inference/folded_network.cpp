#include "model/inference/folded_network.h"

#include "kernels/error.h"
#include "model/position_embedding.h"

#include <ATen/ATen.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>

namespace hydrascope::model::inference {
namespace {

using at::Tensor;

/// The parameters below a module's name, in float64.
class Parameters {
 public:
  /// Those of `module`; the linear layers that `weights` has come from there.
  Parameters(const torch::nn::Module& module, std::string name = "", TensorSource weights = {})
      : parameters_(module.named_parameters()),
        name_(std::move(name)),
        weights_(std::move(weights)) {}

  [[nodiscard]] bool has(const std::string& name) const { return parameters_.contains(name); }
  [[nodiscard]] Tensor get(const std::string& name) const {
    const bool elsewhere = weights_ && is_block_linear(name_ + name);
    const Tensor stored = elsewhere ? weights_(name_ + name) : parameters_[name];
    // Modules are float32, whatever a file holds.
    return stored.detach().to(at::kFloat).to(at::kDouble);
  }
  [[nodiscard]] Affine linear(const std::string& name) const {
    Affine linear{get(name + ".weight"), {}};
    linear.bias =
        has(name + ".bias") ? get(name + ".bias") : at::zeros({linear.weight.size(0)}, at::kDouble);
    return linear;
  }

 private:
  torch::OrderedDict<std::string, Tensor> parameters_;
  std::string name_;
  TensorSource weights_;
};

/// linear(norm(x)) with the norm's weight and bias taken in.
Affine behind_norm(const Affine& linear, const Tensor& norm_weight, const Tensor& norm_bias) {
  return {linear.weight * norm_weight, linear.bias + linear.weight.mv(norm_bias)};
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

FoldedBlock fold_block(const EngineSource& source, std::int64_t layer, const KernelForm* form) {
  const at::NoGradGuard no_grad;
  VisionTransformerImpl& model = *source.model.ptr();
  const VitConfig& config = model.config();
  BlockImpl& module = model.block(layer);
  const auto shared = std::make_shared<const Parameters>(
      module, "blocks." + std::to_string(layer) + ".", source.weights);
  const Parameters& parameters = *shared;
  const std::int64_t dim = config.embed_dim;
  const std::int64_t heads = config.num_heads;
  const Tensor norm1_weight = parameters.get("norm1.weight");
  const Tensor norm1_bias = parameters.get("norm1.bias");
  const Affine qkv = parameters.linear("attn.qkv");
  Affine query = rows(qkv, 0, dim);
  if (module.attention().query_is_input())
    query = {at::eye(dim, at::kDouble), at::zeros({dim}, at::kDouble)};
  Affine key = rows(qkv, dim, dim);
  if (form != nullptr) {
    query = through(form->query(config.head_dim()), query, heads);
    key = through(form->key(config.head_dim()), key, heads);
  }
  FoldedBlock block;
  block.query = behind_norm(query, norm1_weight, norm1_bias);
  block.key_value = behind_norm(stacked(key, rows(qkv, 2 * dim, dim)), norm1_weight, norm1_bias);

  const auto residual = [shared](const std::string& name, const std::string& scale) {
    const Affine linear = shared->linear(name);
    return shared->has(scale) ? scaled(linear, shared->get(scale)) : linear;
  };
  block.proj = [residual] { return residual("attn.proj", "ls1.gamma"); };
  block.fc1 = [shared] {
    return behind_norm(shared->linear("mlp.fc1"), shared->get("norm2.weight"),
                       shared->get("norm2.bias"));
  };
  block.fc2 = [residual, shared, normed = config.scale_mlp] {
    const Affine fc2 = residual("mlp.fc2", "ls2.gamma");
    return normed ? behind_norm(fc2, shared->get("mlp.norm.weight"), shared->get("mlp.norm.bias"))
                  : fc2;
  };
  return block;
}

FoldedHead fold_head(VisionTransformerImpl& model) {
  const at::NoGradGuard no_grad;
  const VitConfig& config = model.config();
  const Parameters parameters(model);
  const std::string norm = config.fc_norm ? "fc_norm" : "norm";
  FoldedHead head{parameters.get(norm + ".weight"),
                  parameters.get(norm + ".bias"),
                  parameters.linear("head"),
                  {}};
  if (config.distilled) head.distilled = parameters.linear("head_dist");
  return head;
}

Affine fold_patch_embed(VisionTransformerImpl& model) {
  const at::NoGradGuard no_grad;
  const Parameters parameters(model);
  return {parameters.get("patch_embed.proj.weight").flatten(1),
          parameters.get("patch_embed.proj.bias")};
}

Embeddings make_embeddings(VisionTransformerImpl& model, std::int64_t grid_rows,
                           std::int64_t grid_columns) {
  const c10::InferenceMode inference;
  const VitConfig& config = model.config();
  const Parameters parameters(model);
  const std::int64_t num_prefix = config.num_prefix_tokens();
  const std::int64_t embedded = config.no_embed_class ? 0 : num_prefix;
  const TokenGrid grid = config.token_grid(grid_rows, grid_columns);
  const Tensor learned =
      parameters.has("pos_embed") ? parameters.get("pos_embed").to(at::kFloat) : Tensor();
  const Tensor position = position_embedding(learned, config, grid).squeeze(0);
  std::vector<Tensor> tokens;
  for (const char* name : {"cls_token", "dist_token", "reg_token"}) {
    if (parameters.has(name)) tokens.push_back(parameters.get(name).squeeze(0));
  }
  Embeddings embeddings;
  if (!tokens.empty()) {
    embeddings.prefix = at::cat(tokens).to(at::kFloat);
    if (embedded > 0) embeddings.prefix = embeddings.prefix + position.narrow(0, 0, embedded);
  }
  embeddings.position = position.slice(0, embedded);
  for (std::int64_t layer = 0; layer < config.depth; ++layer) {
    if (const Tensor& table = model.block(layer).pos_embed(); table.defined())
      embeddings.layer_positions.push_back(
          layer_position_embedding(table.to(at::kFloat), config, grid).squeeze(0));
    else
      embeddings.layer_positions.emplace_back();
  }
  return embeddings;
}

std::optional<GridExtent> common_window(VisionTransformerImpl& model) {
  std::optional<GridExtent> common;
  for (std::int64_t layer = 0; layer < model.config().depth; ++layer) {
    const auto form = model.block(layer).attention().mixer().kernel_form();
    if (!form) return std::nullopt;
    const std::optional<GridExtent> windows = form->windows();
    if (windows && common && *common != *windows) return std::nullopt;
    if (windows) common = windows;
  }
  return common;
}

void move_mixer(AttentionImpl& attention, c10::Device device, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const auto move = [&](const torch::OrderedDict<std::string, Tensor>& tensors) {
    for (const auto& item : tensors) {
      if (!item.key().starts_with("qkv.") && !item.key().starts_with("proj."))
        Tensor(item.value()).set_data(item.value().to(device, type));
    }
  };
  move(attention.named_parameters());
  move(attention.named_buffers());
}

void require_kernels_everywhere(
    VisionTransformerImpl& model,
    const std::function<std::string(std::int64_t layer, const KernelForm& form)>& lacking) {
  const VitConfig& config = model.config();
  // First what has no kernels anywhere: windows beside it have none for its sake.
  for (const bool anywhere : {true, false}) {
    for (std::int64_t layer = 0; layer < config.depth; ++layer) {
      const TokenMixer& mixer = model.block(layer).attention().mixer();
      const auto form = mixer.kernel_form();
      std::string why;
      if (form)
        why = anywhere ? "" : lacking(layer, *form);
      else if (mixer.position() != nullptr)
        why = "with the position rule '" + config.rel_pos_of(layer).rule + "'";
      else
        why = "with these options";
      if (!why.empty())
        throw Error(
            ErrorCode::invalid_argument,
            "there are no kernels for '" + config.attention_of(layer).mechanism + "' " + why,
            "blocks." + std::to_string(layer) + ".attn",
            "`kernels` auto runs such layers as modules inside the plan");
    }
  }
}

}  // namespace hydrascope::model::inference
