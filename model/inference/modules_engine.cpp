#include "model/inference/modules_engine.h"

#include "model/inference/gpu/cuda_plan.h"

#include <ATen/ops/stack.h>
#include <c10/core/InferenceMode.h>

#include <vector>

namespace hydrascope::model::inference {

ModulesEngine::ModulesEngine(const WeightTable& weights, const InferenceOptions& options)
    : Engine(weights.config(), options), model_(weights.take_modules()) {
  fill(*model_, weights);
  model_->eval();
  model_->to(options.device, options.precision.dtype);
  for (at::Tensor& parameter : model_->parameters()) parameter.set_requires_grad(false);
}

EngineOutputs ModulesEngine::run(const ImageBatch& batch) {
  const c10::InferenceMode inference;
  ForwardOptions forward{options().kernels};
  std::vector<at::Tensor> block_inputs;
  if (!options().trace_layers.empty()) forward.block_inputs = &block_inputs;
  const at::Tensor images = batch.stacked().to(options().device, options().precision.dtype);
  EngineOutputs outputs;
  outputs.logits = model_->forward(images, forward).to(at::kCPU, at::kFloat).contiguous();
  std::vector<at::Tensor> traced;
  for (const std::int64_t layer : options().trace_layers)
    traced.push_back(block_inputs[static_cast<std::size_t>(layer)]);
  if (!traced.empty()) outputs.tokens = at::stack(traced, 1).to(at::kFloat);
  return outputs;
}

std::int64_t ModulesEngine::enough_tokens() const noexcept {
  return options().device.is_cuda() ? kBusyGpuTokens : Engine::enough_tokens();
}

EngineDescription ModulesEngine::describe() const {
  return {options().kernels == Kernels::reference ? "reference" : "modules"};
}

}  // namespace hydrascope::model::inference
