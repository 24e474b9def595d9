#include "model/inference/modules_engine.h"

#include <ATen/ops/stack.h>

#include <vector>

namespace hydrascope::model::inference {

ModulesEngine::ModulesEngine(const EngineSource& source, const InferenceOptions& options)
    : SynchronousEngine(source.model->config()), model_(source.model), options_(options) {
  fill(*model_, source.weights, /*block_linears=*/true);
  model_->to(options.device, options.precision.dtype);
  for (at::Tensor& parameter : model_->parameters()) parameter.set_requires_grad(false);
}

SynchronousEngine::Outputs ModulesEngine::compute(const at::Tensor& images) {
  ForwardOptions forward{options_.kernels};
  std::vector<at::Tensor> block_inputs;
  if (!options_.trace_layers.empty()) forward.block_inputs = &block_inputs;
  Outputs outputs;
  outputs.logits = model_->forward(images.to(options_.device, options_.precision.dtype), forward)
                       .to(at::kCPU, at::kFloat)
                       .contiguous();
  std::vector<at::Tensor> traced;
  for (const std::int64_t layer : options_.trace_layers)
    traced.push_back(block_inputs[static_cast<std::size_t>(layer)]);
  if (!traced.empty()) outputs.trace = at::stack(traced, 1).to(at::kFloat);
  return outputs;
}

EngineLimits ModulesEngine::limits() const noexcept {
  EngineLimits limits;
  if (options_.device.is_cuda()) limits.enough_tokens = kBusyGpuTokens;
  return limits;
}

EngineDescription ModulesEngine::describe() const {
  return {options_.kernels == Kernels::reference ? "reference" : "modules"};
}

}  // namespace hydrascope::model::inference
