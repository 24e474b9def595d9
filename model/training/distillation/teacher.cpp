#include "model/training/distillation/teacher.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

namespace hydrascope::model::training {

std::int64_t num_read_tokens(const VitConfig& config, const TokenGrid& grid) {
  return config.global_pool == Pooling::token ? num_class_tokens(config) : grid.num_tokens();
}

std::int64_t num_compared_tokens(const VitConfig& config, std::int64_t layer,
                                 const TokenGrid& grid) {
  return layer + 1 == config.depth ? num_read_tokens(config, grid) : grid.num_tokens();
}

std::int64_t num_class_tokens(const VitConfig& config) {
  if (config.global_pool != Pooling::token) return 0;
  return config.distilled ? 2 : 1;
}

at::Tensor mix_tokens(VisionTransformerImpl& model, std::int64_t layer, const at::Tensor& tokens,
                      const TokenGrid& grid, std::int64_t count) {
  BlockImpl& block = model.block(layer);
  return block.attention().mix(block.normalise(tokens), grid, count);
}

QueriesAndKeys queries_and_keys(VisionTransformerImpl& model, std::int64_t layer,
                                const at::Tensor& tokens) {
  BlockImpl& block = model.block(layer);
  const at::Tensor normalised = block.normalise(tokens);
  return {block.attention().project(normalised, AttentionImpl::Part::query),
          block.attention().project(normalised, AttentionImpl::Part::key)};
}

at::Tensor run_block(VisionTransformerImpl& model, std::int64_t layer, const at::Tensor& tokens,
                     const TokenGrid& grid) {
  BlockImpl& block = model.block(layer);
  const std::int64_t read = num_read_tokens(model.config(), grid);
  if (layer + 1 < model.config().depth)
    return model.enter(layer + 1, block.forward(tokens, grid, Kernels::automatic), grid);
  if (read == grid.num_tokens()) return block.forward(tokens, grid, Kernels::automatic);
  return block.complete(tokens.narrow(1, 0, read), mix_tokens(model, layer, tokens, grid, read));
}

at::Tensor classify_tokens(VisionTransformerImpl& model, const at::Tensor& tokens) {
  return to_compute_type(model.forward_head(model.forward_norm(tokens)));
}

at::Tensor logits_of(VisionTransformerImpl& model, const at::Tensor& images) {
  const TokenGrid grid = model.grid_of(images);
  return logits_from(model, 0, model.embed(images, grid), grid);
}

at::Tensor logits_from(VisionTransformerImpl& model, std::int64_t layer, at::Tensor tokens,
                       const TokenGrid& grid) {
  for (; layer < model.config().depth; ++layer) tokens = run_block(model, layer, tokens, grid);
  return classify_tokens(model, tokens);
}

Teacher::Teacher(VisionTransformer model) : model_(std::move(model)) {
  model_->eval();
  for (at::Tensor& parameter : model_->parameters()) parameter.set_requires_grad(false);
}

void Teacher::compile(at::ScalarType dtype) {
  inference::InferenceOptions options;
  options.precision.dtype = dtype;
  options.threads = at::get_num_threads();
  plan_ = std::make_unique<inference::InferencePlan>(model_, options);
}

// Not in inference mode, whose tensors cannot be saved for the student's backward pass: the plan's
// logits are copied out of it.
TeacherPass Teacher::look(const at::Tensor& images, const std::vector<std::int64_t>& layers) {
  const at::NoGradGuard no_grad;
  const bool has_logits = layers.back() == config().depth;
  TeacherPass pass;
  pass.grid = model_->grid_of(images);
  if (plan_) {
    at::Tensor logits;
    const at::Tensor traced = plan_->tokens(images, layers, has_logits ? &logits : nullptr);
    for (std::int64_t i = 0; i < traced.size(1); ++i) pass.tokens.push_back(traced.select(1, i));
    if (!has_logits) return pass;
    pass.tokens.back() = pass.tokens.back().narrow(1, 0, num_read_tokens(config(), pass.grid));
    pass.logits = logits.clone();
    return pass;
  }
  at::Tensor tokens = model_->embed(images, pass.grid);
  std::int64_t layer = 0;
  for (const std::int64_t wanted : layers) {
    for (; layer < wanted; ++layer) tokens = run_block(*model_, layer, tokens, pass.grid);
    pass.tokens.push_back(tokens);
  }
  if (has_logits) pass.logits = classify_tokens(*model_, tokens);
  return pass;
}

at::Tensor Teacher::logits(const at::Tensor& images) {
  if (!plan_) return look(images, {config().depth}).logits;
  const at::NoGradGuard no_grad;
  return plan_->logits(images).clone();
}

}  // namespace hydrascope::model::training
