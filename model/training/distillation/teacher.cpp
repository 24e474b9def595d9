#include "model/training/distillation/teacher.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <utility>

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

AttentionTrace trace_attention(VisionTransformerImpl& model, std::int64_t layer,
                               const at::Tensor& tokens, const TokenGrid& grid) {
  BlockImpl& block = model.block(layer);
  return block.attention().trace(block.normalise(tokens), grid, Kernels::automatic);
}

at::Tensor run_block(VisionTransformerImpl& model, std::int64_t layer, const at::Tensor& tokens,
                     const TokenGrid& grid) {
  BlockImpl& block = model.block(layer);
  const std::int64_t read = num_read_tokens(model.config(), grid);
  if (layer + 1 < model.config().depth)
    return model.enter(layer + 1, block.forward(tokens, grid, Kernels::automatic), grid);
  if (read == grid.num_tokens()) return block.forward(tokens, grid, Kernels::automatic);
  const at::Tensor mixed = trace_attention(model, layer, tokens, grid).output;
  return block.complete(tokens.narrow(1, 0, read), mixed.narrow(1, 0, read));
}

at::Tensor classify_tokens(VisionTransformerImpl& model, const at::Tensor& tokens) {
  return to_compute_type(model.forward_head(model.forward_norm(tokens)));
}

Teacher::Teacher(VisionTransformer model) : model_(std::move(model)) {
  model_->eval();
  for (at::Tensor& parameter : model_->parameters()) parameter.set_requires_grad(false);
}

void Teacher::compile(at::ScalarType dtype, std::int64_t first_layer) {
  inference::InferenceOptions options;
  options.precision.dtype = dtype;
  options.threads = at::get_num_threads();
  for (std::int64_t layer = first_layer; layer < config().depth; ++layer)
    options.trace_layers.push_back(layer);
  plan_ = std::make_unique<inference::InferencePlan>(model_, options);
  first_layer_ = first_layer;
}

std::vector<at::Tensor> Teacher::look_at_blocks(const at::Tensor& images) {
  at::Tensor traced;  // (B, layers, N, D)
  plan_->logits(images, &traced);
  std::vector<at::Tensor> tokens(static_cast<std::size_t>(first_layer_));
  for (std::int64_t i = 0; i < traced.size(1); ++i) tokens.push_back(traced.select(1, i));
  return tokens;
}

TeacherPass Teacher::look(const at::Tensor& images) {
  // Not inference mode: its tensors may not be saved for the student's backward pass.
  const at::NoGradGuard no_grad;
  TeacherPass pass;
  pass.grid = model_->grid_of(images);
  pass.tokens =
      plan_ ? look_at_blocks(images) : std::vector<at::Tensor>{model_->embed(images, pass.grid)};
  for (std::int64_t layer = std::ssize(pass.tokens) - 1; layer < config().depth; ++layer)
    pass.tokens.push_back(run_block(*model_, layer, pass.tokens.back(), pass.grid));
  pass.logits = classify_tokens(*model_, pass.tokens.back());
  return pass;
}

TeacherAttention Teacher::look_at_attention(const at::Tensor& images,
                                            const std::vector<std::int64_t>& layers) {
  const at::NoGradGuard no_grad;
  TeacherAttention attention;
  attention.grid = model_->grid_of(images);
  if (plan_ && layers.front() >= first_layer_) {
    const std::vector<at::Tensor> tokens = look_at_blocks(images);
    for (const std::int64_t layer : layers) {
      const at::Tensor& entering = tokens[static_cast<std::size_t>(layer)];
      attention.layers.push_back(
          {layer, entering, trace_attention(*model_, layer, entering, attention.grid)});
    }
    return attention;
  }
  at::Tensor tokens = model_->embed(images, attention.grid);
  std::int64_t layer = 0;
  for (const std::int64_t wanted : layers) {
    for (; layer < wanted; ++layer) tokens = run_block(*model_, layer, tokens, attention.grid);
    AttentionTrace trace = trace_attention(*model_, layer, tokens, attention.grid);
    const bool is_last = wanted == layers.back();
    at::Tensor next;
    if (!is_last)
      next = model_->enter(layer + 1, model_->block(layer).complete(tokens, trace.output),
                           attention.grid);
    attention.layers.push_back({layer, std::exchange(tokens, std::move(next)), std::move(trace)});
    ++layer;
  }
  return attention;
}

}  // namespace hydrascope::model::training
