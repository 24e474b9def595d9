#include "tests/model/explain/brute_force.h"

#include "model/registry/mechanisms.h"
#include "tests/model/attention/contributions.h"
#include "tests/model/small_vit.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <utility>

namespace hydrascope::testing {

using at::Tensor;
using model::explain::Explainer;
using model::explain::Explanation;
using model::explain::MaplessLayers;
using model::explain::Method;
using model::explain::Request;

namespace {

Tensor random_image(const model::VitConfig& config, std::int64_t rows, std::int64_t columns) {
  return at::randn({1, config.in_chans, rows * config.patch_size, columns * config.patch_size});
}

}  // namespace

BruteForce::BruteForce(const model::VitConfig& config, std::int64_t rows, std::int64_t columns,
                       std::uint64_t seed)
    : BruteForce(random_vit(config, seed, 0.15, "projection"),
                 random_image(config, rows, columns)) {}

BruteForce::BruteForce(model::VisionTransformer model, const Tensor& image)
    : model_(std::move(model)) {
  grid_ = config().token_grid_of_pixels(image.size(2), image.size(3));
  model_->eval();
  model_->to(at::kDouble);
  for (Tensor& parameter : model_->parameters()) parameter.set_requires_grad(false);
  run(image.to(at::kDouble));
}

void BruteForce::run(const Tensor& image) {
  std::vector<Tensor> inputs;
  model::ForwardOptions options;
  options.block_inputs = &inputs;
  model_->forward(image, options);
  Tensor x = inputs.front().detach().requires_grad_();
  for (std::int64_t l = 0; l < config().depth; ++l) {
    model::BlockImpl& block = model_->block(l);
    Layer layer;
    layer.x = x;
    layer.normalised = block.normalise(x);
    const auto parts = block.attention().project(layer.normalised);
    layer.q = parts.q;
    layer.k = parts.k;
    layer.v = parts.v;
    layer.mixed = mixer(l).mix(parts.q, parts.k, parts.v, grid_, model::Kernels::reference);
    x = block.complete(x, layer.mixed);
    layers_.push_back(layer);
  }
  logits_ = model_->forward_head(model_->forward_norm(x)).squeeze(0);
}

Tensor BruteForce::traced(const std::vector<std::int64_t>& layers) const {
  std::vector<Tensor> parts;
  for (const std::int64_t index : layers)
    parts.push_back(layer(index).x.detach().squeeze(0).to(at::kFloat));
  return at::stack(parts);
}

Explainer::Fill BruteForce::fill() const {
  return [this](model::VisionTransformerImpl& other, std::span<const std::int64_t>) {
    const auto source = model::named_tensors(*model_);
    const auto target = model::named_tensors(other);
    for (std::size_t i = 0; i < source.size(); ++i) target[i].second.copy_(source[i].second);
  };
}

std::vector<Explanation> BruteForce::explain(const std::vector<Request>& requests) const {
  Explainer explainer(config(), requests, fill());
  return explainer.explain(traced(Explainer::traced_layers(config(), requests)), grid_, requests);
}

Explanation BruteForce::explain(const Request& request) const {
  return explain(std::vector<Request>{request}).front();
}

model::TokenMixer& BruteForce::mixer(std::int64_t layer) const {
  return model_->block(layer).attention().mixer();
}

Tensor BruteForce::readout() const {
  Tensor r = at::zeros({grid_.num_tokens()}, at::kDouble);
  if (config().global_pool == model::Pooling::avg) {
    const std::int64_t patches = grid_.num_image_tokens();
    r.narrow(0, grid_.num_prefix, patches).fill_(1.0 / static_cast<double>(patches));
  } else {
    r.narrow(0, 0, config().distilled ? 2 : 1).fill_(config().distilled ? .5 : 1);
  }
  return r;
}

const BruteForce::Gradients& BruteForce::gradients(std::int64_t class_index) const {
  const auto [found, is_new] = gradients_.try_emplace(class_index);
  if (!is_new) return found->second;
  std::vector<Tensor> at;
  for (const Layer& l : layers_) at.push_back(l.mixed);
  for (const Layer& l : layers_) at.push_back(l.normalised);
  const auto all = torch::autograd::grad({logits_[class_index]}, at, {}, /*retain_graph=*/true);
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(layers_.size());
  found->second = {{all.begin(), middle}, {middle, all.end()}};
  return found->second;
}

double BruteForce::gradient_dot_output(std::int64_t index, std::int64_t class_index) const {
  const Tensor& y = layer(index).mixed;
  return (gradients(class_index).mixed[static_cast<std::size_t>(index)] * y).sum().item<double>();
}

Tensor BruteForce::map(std::int64_t index) const {
  const at::NoGradGuard no_grad;
  const Tensor rows =
      mixer(index).attention_rows(layer(index).q, layer(index).k, grid_, 0, grid_.num_tokens());
  return rows.defined() ? rows.squeeze(0) : rows;
}

Tensor BruteForce::weighted_map(std::int64_t index, std::int64_t class_index) const {
  const Layer& l = layer(index);
  const Tensor g =
      gradients(class_index).mixed[static_cast<std::size_t>(index)].squeeze(0);  // (N, D)
  const at::NoGradGuard no_grad;
  const Tensor a = map(index);
  if (a.defined())
    return a * model::split_heads(g.unsqueeze(0), config().num_heads).matmul(l.v.mT()).squeeze(0);
  std::vector<Tensor> rows;
  for (std::int64_t i = 0; i < grid_.num_tokens(); ++i) {
    const Tensor given =
        testing::contributions(mixer(index), l.q, l.k, l.v, grid_, i).squeeze(0);  // (N, D)
    rows.push_back((given * g[i]).unflatten(1, {config().num_heads, -1}).sum(-1));
  }
  return at::stack(rows).permute({2, 0, 1});
}

Tensor BruteForce::factor(const Request& request, std::int64_t index) const {
  const Tensor identity = at::eye(grid_.num_tokens(), at::kDouble);
  if (request.method == Method::rollout) {
    const auto& mechanism = model::find_mechanism(config().attention_of(index).mechanism);
    if (mechanism.rows_sum_to_one) return (map(index).mean(0) + identity) / 2;
    if (request.mapless == MaplessLayers::skip) return identity;
    const auto units = [](const Tensor& x) {
      const Tensor tokens = model::merge_heads(x.detach()).squeeze(0);
      return tokens / tokens.norm(2, 1, /*keepdim=*/true);
    };
    const Tensor c = 1 + units(layer(index).q).matmul(units(layer(index).k).t());
    return (c / c.sum(1, /*keepdim=*/true) + identity) / 2;
  }
  const Tensor weighted = weighted_map(index, request.class_index);
  if (request.method == Method::attn_gradcam) return identity + weighted.relu().mean(0);
  const Tensor at = identity + weighted.mean(0).relu();
  return at / at.sum(1, /*keepdim=*/true);
}

Tensor BruteForce::heat(const Request& request) const {
  const Layer& l = layer(request.layer);
  switch (request.method) {
    case Method::hydra: {
      const Tensor heads = weighted_map(request.layer, request.class_index).sum(1);
      return request.per_head ? heads : heads.sum(0);
    }
    case Method::attention: {
      const Tensor heads = readout().matmul(map(request.layer));
      return request.per_head ? heads : heads.mean(0);
    }
    case Method::gradcam: {
      const Tensor x = l.normalised.detach().squeeze(0);
      const Tensor alpha = gradients(request.class_index)
                               .normalised[static_cast<std::size_t>(request.layer)]
                               .squeeze(0)
                               .slice(0, grid_.num_prefix)
                               .mean(0);
      return x.matmul(alpha).relu();
    }
    default: break;
  }
  Tensor product = at::eye(grid_.num_tokens(), at::kDouble);
  for (std::int64_t index = 0; index <= request.layer; ++index)
    product = factor(request, index).matmul(product);
  return readout().matmul(product);
}

Tensor BruteForce::derivative_by_share(std::int64_t index, std::int64_t class_index) const {
  const Layer& l = layer(index);
  const Tensor alpha = at::zeros({grid_.num_tokens(), 1}, at::kDouble).requires_grad_();
  // Mixing is linear in v.
  const Tensor mixed = mixer(index).mix(l.q.detach(), l.k.detach(), l.v.detach() * (1 + alpha),
                                        grid_, model::Kernels::reference);
  Tensor x = model_->block(index).complete(l.x.detach(), mixed);
  for (std::int64_t next = index + 1; next < config().depth; ++next)
    x = model_->block(next).forward(x, grid_, model::Kernels::reference);
  const Tensor logits = model_->forward_head(model_->forward_norm(x)).squeeze(0);
  return torch::autograd::grad({logits[class_index]}, {alpha})[0].squeeze(1);
}

Tensor all_heat(const Explanation& explanation) {
  return at::cat({explanation.prefix, explanation.map.flatten(-2)}, -1);
}

double relative_to_largest(const Tensor& actual, const Tensor& expected) {
  if (actual.sizes() != expected.sizes()) return std::numeric_limits<double>::infinity();
  const Tensor error = (actual.to(at::kDouble) - expected).abs().max();
  return (error / expected.abs().max().clamp_min(1e-300)).item<double>();
}

model::VitConfig small_config(const std::string& attention) {
  return small_vit({.edge = 64, .dim = 96, .classes = 11}, attention);
}

model::VitConfig mechanism_config(const std::string& mechanism) {
  model::VitConfig config = small_config(mechanism);
  if (mechanism == "linformer")
    model::apply_attention_option("linformer.length=8", config.attention);
  if (mechanism == "nystrom")
    model::apply_attention_option("nystrom.landmarks=9", config.attention);
  if (mechanism == "performer" || mechanism == "rfa")
    model::apply_attention_option(mechanism + ".features=32", config.attention);
  return config;
}

}  // namespace hydrascope::testing
