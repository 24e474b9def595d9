#include "model/inference/modules_engine.h"

#include "model/inference/cpu/exit_score.h"
#include "model/inference/gpu/cuda_plan.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <span>
#include <vector>

namespace hydrascope::model::inference {

ModulesEngine::ModulesEngine(const WeightTable& weights, const InferenceOptions& options)
    : Engine(weights.config(), options), model_(weights.take_modules()) {
  fill(*model_, weights);
  model_->eval();
  model_->to(options.device, options.precision.dtype);
  for (at::Tensor& parameter : model_->parameters()) parameter.set_requires_grad(false);
  for (std::size_t layer = 0; layer < options.memory.size(); ++layer)
    attention(static_cast<std::int64_t>(layer)).remember(options.memory[layer]);
}

EngineOutputs ModulesEngine::run(const ImageBatch& batch) {
  const c10::InferenceMode inference;
  for (std::int64_t layer = 0; !batch.goes_on && layer < config().depth; ++layer)
    attention(layer).forget();
  ForwardOptions forward{options().kernels};
  std::vector<at::Tensor> block_inputs;
  const bool has_exits = options().exits != Exits::off && !config().exits.empty();
  if (has_exits || !options().trace_layers.empty()) forward.block_inputs = &block_inputs;
  const at::Tensor images = batch.stacked().to(options().device, options().precision.dtype);
  EngineOutputs outputs;
  outputs.logits = model_->forward(images, forward).to(at::kCPU, at::kFloat).contiguous();
  if (has_exits) judge_exits(model_->grid_of(images), block_inputs, outputs);
  std::vector<at::Tensor> traced;
  for (const std::int64_t layer : options().trace_layers)
    traced.push_back(block_inputs[static_cast<std::size_t>(layer)]);
  if (!traced.empty()) outputs.tokens = at::stack(traced, 1).to(at::kFloat);
  return outputs;
}

void ModulesEngine::judge_exits(const TokenGrid& grid, const std::vector<at::Tensor>& block_inputs,
                                EngineOutputs& outputs) {
  const std::vector<std::int64_t>& exits = config().exits;
  const std::int64_t images = outputs.logits.size(0);
  const bool leaves = options().exits == Exits::leave;
  at::Tensor layers = at::full({images}, config().depth - 1, at::kLong);
  at::Tensor scores = at::empty({images, std::ssize(exits)}, at::kFloat);
  at::Tensor classes = at::empty({images, std::ssize(exits)}, at::kLong);
  at::Tensor previous;
  const auto row = [](const at::Tensor& rows, std::int64_t image) {
    return std::span<const float>(rows.const_data_ptr<float>() + image * rows.size(1),
                                  static_cast<std::size_t>(rows.size(1)));
  };
  for (std::int64_t number = 0; number < std::ssize(exits); ++number) {
    const std::int64_t layer = exits[static_cast<std::size_t>(number)];
    const ExitOutput found = model_->look_at_exit(
        layer, block_inputs[static_cast<std::size_t>(layer) + 1], grid, options().kernels);
    const auto on_cpu = [](const at::Tensor& x) { return x.to(at::kCPU, at::kFloat).contiguous(); };
    const at::Tensor logits = on_cpu(found.logits);
    const at::Tensor features = on_cpu(found.features);
    const at::Tensor stop = on_cpu(found.stop);
    classes.select(1, number).copy_(logits.argmax(1));
    for (std::int64_t image = 0; image < images; ++image) {
      ExitFindings findings{
          row(logits, image), row(features, image), {}, stop[image].item<float>()};
      if (previous.defined()) findings.previous = row(previous, image);
      const float score = exit_score(config().exit_rule, findings);
      scores[image][number] = score;
      const bool is_here = layers[image].item<std::int64_t>() == config().depth - 1;
      if (!leaves || !is_here || !(score > config().exit_threshold)) continue;
      layers[image] = layer;
      outputs.logits[image].copy_(logits[image]);
    }
    previous = features;
  }
  if (leaves)
    outputs.exits.layers = layers;
  else
    outputs.exits = {{}, scores, classes};
}

std::int64_t ModulesEngine::enough_tokens() const noexcept {
  return options().device.is_cuda() ? kBusyGpuTokens : Engine::enough_tokens();
}

EngineDescription ModulesEngine::describe() const {
  return {options().kernels == Kernels::reference ? "reference" : "modules"};
}

}  // namespace hydrascope::model::inference
