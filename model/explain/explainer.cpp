#include "model/explain/explainer.h"

#include "kernels/error.h"
#include "model/explain/image_explanations.h"
#include "model/explain/mixer_inputs.h"
#include "model/explain/readout.h"
#include "model/torch_errors.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace hydrascope::model::explain {
namespace {

using at::Tensor;

/// Throws unless a model of `config` can serve `request`.
void check(const VitConfig& config, const Request& request) {
  const MethodEntry& entry = entry_of(request.method);
  require_supported(config, request.method, request.layer, request.mapless,
                    std::string(entry.name));
  if (request.per_head && !entry.by_head)
    throw Error(ErrorCode::invalid_argument, "a single head has no map of this method",
                std::string(entry.name), "hydra and attention have a map for each head");
  // Index 0 stands for any class while layers are chosen, also in a model without one.
  const bool is_any = request.class_index == 0 && config.num_classes == 0;
  if (entry.of_class && !is_any &&
      (request.class_index < 0 || request.class_index >= config.num_classes))
    throw Error(ErrorCode::invalid_argument,
                "the model's classes are 0 to " + std::to_string(config.num_classes - 1) +
                    ", not " + std::to_string(request.class_index),
                std::string(entry.name));
}

/// Moves the weights that are read to the device; the others stay.
void move(VisionTransformerImpl& model, std::span<const std::int64_t> layers, c10::Device device) {
  for (const auto& child : model.named_children())
    if (child.key() != "blocks") child.value()->to(device);
  for (const std::int64_t layer : layers) model.block(layer).to(device);
}

void check_tokens(const ExplainedModel& explained, const Tensor& tokens, const TokenGrid& grid) {
  const VitConfig& config = explained.model->config();
  const auto layers = static_cast<std::int64_t>(explained.layers.size());
  if (grid.num_prefix == config.num_prefix_tokens() &&
      tokens.sizes() == at::IntArrayRef{layers, grid.num_tokens(), config.embed_dim})
    return;
  throw Error(ErrorCode::internal,
              "expected the tokens (" + std::to_string(layers) + ", " +
                  std::to_string(grid.num_tokens()) + ", " + std::to_string(config.embed_dim) +
                  ") of one image, found " + c10::str(tokens.sizes()),
              "Explainer");
}

}  // namespace

std::vector<std::int64_t> Explainer::traced_layers(const VitConfig& config,
                                                   std::span<const Request> requests) {
  std::set<std::int64_t> layers;
  for (const Request& request : requests) {
    check(config, request);
    const std::int64_t first = is_rollout(request.method) ? 0 : request.layer;
    const bool to_the_end = needs_all_gradients(request.method) || request.method == Method::hydra;
    const std::int64_t last = to_the_end ? config.depth - 1 : request.layer;
    for (std::int64_t layer = first; layer <= last; ++layer) layers.insert(layer);
  }
  return {layers.begin(), layers.end()};
}

double class_token_share(const VitConfig& config, const Tensor& map, const Tensor& prefix) {
  if (!config.class_token) return 0;
  const double size = (map.abs().sum(at::kDouble) + prefix.abs().sum(at::kDouble)).item<double>();
  return size > 0 ? prefix.select(-1, 0).sum(at::kDouble).item<double>() / size : 0;
}

double memory_share(double own, double earlier) {
  const double size = std::abs(own) + std::abs(earlier);
  return size > 0 ? std::abs(earlier) / size : 0;
}

struct Explainer::State : ExplainedModel {};

Explainer::Explainer(const VitConfig& config, std::span<const Request> requests, const Fill& fill,
                     const ExplainerOptions& options)
    : state_(std::make_unique<State>()) {
  // Autograd cannot use weights that were made in inference mode.
  const c10::InferenceMode outside_inference(false);
  const at::NoGradGuard no_grad;
  state_->layers = traced_layers(config, requests);
  state_->device = options.device;
  state_->memory = options.memory;
  for (const Request& request : requests)
    if (!options.memory.empty())
      require_remembering(config, request.method, request.layer,
                          std::string(entry_of(request.method).name));
  const char* hint = options.device.is_cuda() ? "`device` cpu may have more" : "";
  with_torch_errors("the layers that are explained", options.device.str(), hint, [&] {
    state_->model = VisionTransformer(config, Initialisation::for_loading);
    VisionTransformerImpl& model = *state_->model;
    model.eval();
    for (at::Tensor& parameter : model.parameters()) parameter.set_requires_grad(false);
    if (fill) {
      fill(model, state_->layers);
    } else {
      for (const std::int64_t layer : state_->layers) model.initialise_block(layer);
    }
    move(model, state_->layers, options.device);
  });
}

Explainer::~Explainer() = default;
Explainer::Explainer(Explainer&&) noexcept = default;
Explainer& Explainer::operator=(Explainer&&) noexcept = default;

void Explainer::forget() { state_->frames.clear(); }

void Explainer::set_class_vectors(const Tensor& vectors) {
  const c10::InferenceMode outside_inference(false);
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : named_tensors(*state_->model)) {
    if (name == "head.weight" || name == "head_dist.weight") tensor.copy_(vectors);
    if (name == "head.bias" || name == "head_dist.bias") tensor.zero_();
  }
}

std::vector<Explanation> Explainer::explain(const Tensor& tokens, const TokenGrid& grid,
                                            std::span<const Request> requests,
                                            const BeforeStep& before_step) {
  const c10::InferenceMode outside_inference(false);
  const at::NoGradGuard no_grad;
  check_tokens(*state_, tokens, grid);
  const std::vector<std::int64_t> needed = traced_layers(state_->model->config(), requests);
  if (!std::ranges::includes(state_->layers, needed))
    throw Error(ErrorCode::internal, "a request needs layers that the first ones did not",
                "Explainer");
  return with_torch_errors(
      "the maps of " + std::to_string(grid.num_tokens()) + " tokens", state_->device.str(),
      "a smaller `img_size` needs less",
      [&] { return ImageExplanations(*state_, tokens, grid, requests, before_step).run(); });
}

Tensor Explainer::pooled_tokens(const Tensor& tokens, const TokenGrid& grid) {
  check_tokens(*state_, tokens, grid);
  VisionTransformerImpl& model = *state_->model;
  const std::int64_t last = model.config().depth - 1;
  if (!std::ranges::binary_search(state_->layers, last))
    throw Error(ErrorCode::internal, "no request needs the last layer's tokens", "Explainer");
  const Readout readout(model.config(), grid);
  const Tensor x = state_->tokens_of(tokens, last);
  const auto [q, k, v] = project_tokens(model.block(last), x, readout.end(), /*with_values=*/true);
  TokenMixer& mixer = model.block(last).attention().mixer();
  const Tensor mixed = readout.of_prefix() ? mixer.mix_rows(q, k, v, grid, 0, readout.count)
                                           : mixer.mix(q, k, v, grid, Kernels::automatic);
  return model.forward_norm(complete_in_chunks(model.block(last), x, mixed));
}

Tensor Explainer::logits(const Tensor& tokens, const TokenGrid& grid) {
  const c10::InferenceMode outside_inference(false);
  const at::NoGradGuard no_grad;
  return state_->model->forward_head(pooled_tokens(tokens, grid)).squeeze(0).cpu();
}

Tensor Explainer::patch_row(const Tensor& tokens, const TokenGrid& grid, std::int64_t layer,
                            std::int64_t row, std::int64_t column) {
  const c10::InferenceMode outside_inference(false);
  const at::NoGradGuard no_grad;
  check_tokens(*state_, tokens, grid);
  VisionTransformerImpl& model = *state_->model;
  require_supported(model.config(), Method::attention, layer, MaplessLayers::skip, "patch");
  if (!std::ranges::binary_search(state_->layers, layer))
    throw Error(ErrorCode::invalid_argument, "the layer's tokens are not at hand",
                "layer " + std::to_string(layer));
  if (row < 0 || row >= grid.rows || column < 0 || column >= grid.columns)
    throw Error(ErrorCode::invalid_argument,
                "the picture has " + std::to_string(grid.rows) + " x " +
                    std::to_string(grid.columns) + " patches (rows x columns), counted from 0",
                "patch " + std::to_string(row) + "," + std::to_string(column));
  return with_torch_errors(
      "a row of the attention map", state_->device.str(), "a smaller `img_size` needs less", [&] {
        const std::int64_t token = grid.num_prefix + row * grid.columns + column;
        BlockImpl& block = model.block(layer);
        const auto [q, k, v] = project_tokens(block, state_->tokens_of(tokens, layer), token + 1,
                                              /*with_values=*/false);
        const Tensor heads = block.attention().mixer().attention_rows(q, k, grid, token, 1);
        const Tensor mean = heads.squeeze(2).squeeze(0).mean(0).to(at::kCPU, at::kFloat);
        return mean.narrow(0, grid.num_prefix, grid.num_patches())
            .reshape({grid.rows, grid.columns})
            .contiguous();
      });
}

Tensor Explainer::patch_tokens(const Tensor& tokens, const TokenGrid& grid) {
  const c10::InferenceMode outside_inference(false);
  const at::NoGradGuard no_grad;
  check_tokens(*state_, tokens, grid);
  VisionTransformerImpl& model = *state_->model;
  const std::int64_t last = model.config().depth - 1;
  if (!std::ranges::binary_search(state_->layers, last))
    throw Error(ErrorCode::internal, "no request needs the last layer's tokens", "Explainer");
  return with_torch_errors(
      "the patch tokens", state_->device.str(), "a smaller `img_size` needs less", [&] {
        BlockImpl& block = model.block(last);
        const Tensor x = state_->tokens_of(tokens, last);
        const auto [q, k, v] = project_tokens(block, x, x.size(1), /*with_values=*/true);
        const Tensor mixed = block.attention().mixer().mix(q, k, v, grid, Kernels::automatic);
        const Tensor all = model.forward_norm(complete_in_chunks(block, x, mixed));
        return all.squeeze(0)
            .narrow(0, grid.num_prefix, grid.num_patches())
            .to(at::kCPU, at::kFloat)
            .contiguous();
      });
}

}  // namespace hydrascope::model::explain
