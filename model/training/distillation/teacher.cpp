#include "model/training/distillation/teacher.h"

#include "kernels/error.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <utility>

namespace hydrascope::model::training {

std::int64_t num_read_tokens(const VitConfig& config, const TokenGrid& grid, Target target) {
  return target == Target::logits && config.global_pool == Pooling::token ? num_class_tokens(config)
                                                                          : grid.num_tokens();
}

std::int64_t num_compared_tokens(const VitConfig& config, std::int64_t layer, const TokenGrid& grid,
                                 Target target) {
  return layer + 1 == config.depth ? num_read_tokens(config, grid, target) : grid.num_tokens();
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
                     const TokenGrid& grid, Target target) {
  BlockImpl& block = model.block(layer);
  const std::int64_t read = num_read_tokens(model.config(), grid, target);
  if (layer + 1 < model.config().depth)
    return model.enter(layer + 1, block.forward(tokens, grid, Kernels::automatic), grid);
  if (read == grid.num_tokens()) return block.forward(tokens, grid, Kernels::automatic);
  return block.complete(tokens.narrow(1, 0, read), mix_tokens(model, layer, tokens, grid, read));
}

at::Tensor answers_of(VisionTransformerImpl& model, const at::Tensor& tokens, const TokenGrid& grid,
                      Target target) {
  const at::Tensor normalised = model.forward_norm(tokens);
  if (target == Target::logits) return to_compute_type(model.forward_head(normalised));
  return at::cat({to_compute_type(model.forward_pool(normalised)).unsqueeze(1),
                  to_compute_type(normalised.narrow(1, grid.num_prefix, grid.num_patches()))},
                 1);
}

at::Tensor answers_to(VisionTransformerImpl& model, const at::Tensor& images, Target target) {
  const TokenGrid grid = model.grid_of(images);
  return answers_from(model, 0, model.embed(images, grid), grid, target);
}

at::Tensor answers_from(VisionTransformerImpl& model, std::int64_t layer, at::Tensor tokens,
                        const TokenGrid& grid, Target target) {
  for (; layer < model.config().depth; ++layer)
    tokens = run_block(model, layer, tokens, grid, target);
  return answers_of(model, tokens, grid, target);
}

at::Tensor features_on(const at::Tensor& features, const TokenGrid& from, const TokenGrid& to) {
  if (from.rows == to.rows && from.columns == to.columns) return features;
  const std::array<std::int64_t, 2> size{to.rows, to.columns};
  const at::Tensor patches =
      features.slice(1, 1).transpose(1, 2).unflatten(2, {from.rows, from.columns});
  return at::cat(
      {features.narrow(1, 0, 1), at::adaptive_avg_pool2d(patches, size).flatten(2).transpose(1, 2)},
      1);
}

Teacher::Teacher(VisionTransformer model, std::optional<Target> target)
    : model_(std::move(model)),
      target_(target.value_or(config().num_classes > 0 ? Target::logits : Target::features)) {
  if (target_ == Target::logits && config().num_classes == 0)
    throw Error(ErrorCode::invalid_argument, "has no classes, hence no logits to teach",
                config().arch);
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
  const std::int64_t depth = config().depth;
  const bool has_answers = layers.back() == depth;
  TeacherPass pass;
  pass.grid = model_->grid_of(images);
  if (!plan_) {
    at::Tensor tokens = model_->embed(images, pass.grid);
    std::int64_t layer = 0;
    for (const std::int64_t wanted : layers) {
      for (; layer < wanted; ++layer)
        tokens = run_block(*model_, layer, tokens, pass.grid, target_);
      pass.tokens.push_back(tokens);
    }
    if (has_answers) pass.answers = answers_of(*model_, tokens, pass.grid, target_);
    return pass;
  }
  const auto trace = [&](const std::vector<std::int64_t>& traced, at::Tensor* logits) {
    const at::Tensor tokens = plan_->tokens(images, traced, logits);
    for (std::int64_t i = 0; i < tokens.size(1); ++i) pass.tokens.push_back(tokens.select(1, i));
  };
  if (!has_answers) {
    trace(layers, nullptr);
    return pass;
  }
  if (target_ == Target::logits) {
    at::Tensor logits;
    trace(layers, &logits);
    pass.tokens.back() =
        pass.tokens.back().narrow(1, 0, num_read_tokens(config(), pass.grid, target_));
    pass.answers = logits.clone();
    return pass;
  }
  // The plan computes the last block at the tokens that reach a classifier.
  std::vector<std::int64_t> before(layers.begin(), layers.end() - 1);
  const bool wants_last_input = !before.empty() && before.back() == depth - 1;
  if (!wants_last_input) before.push_back(depth - 1);
  trace(before, nullptr);
  const at::Tensor last = run_block(*model_, depth - 1, pass.tokens.back(), pass.grid, target_);
  if (!wants_last_input) pass.tokens.pop_back();
  pass.tokens.push_back(last);
  pass.answers = answers_of(*model_, last, pass.grid, target_);
  return pass;
}

at::Tensor Teacher::answers(const at::Tensor& images) {
  if (!plan_ || target_ == Target::features) return look(images, {config().depth}).answers;
  const at::NoGradGuard no_grad;
  return plan_->logits(images).clone();
}

}  // namespace hydrascope::model::training
