#include "model/inference/engine.h"

#include "kernels/error.h"
#include "model/inference/inference_options.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/stack.h>

#include <utility>

namespace hydrascope::model::inference {

namespace {

/// Nothing is drawn for what is filled: whoever draws later draws the same.
VisionTransformer unfilled(const VitConfig& config) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor before = generator.get_state();
  VisionTransformer modules(config, Initialisation::for_loading);
  generator.set_state(before);
  return modules;
}

}  // namespace

EngineSource::EngineSource(const VisionTransformer& filled)
    : EngineSource(unfilled(filled->config()), tensors_of(*filled)) {}

EngineSource::EngineSource(VisionTransformer modules, TensorSource source)
    : model(std::move(modules)), weights(std::move(source)) {
  model->eval();
  fill(*model, weights, /*block_linears=*/false);
}

void SynchronousEngine::submit(const ImageBatch& batch) {
  computed_.push_back(compute(batch.on_device.defined() ? batch.on_device
                              : batch.size() == 1       ? batch.images.front().unsqueeze(0)
                                                        : at::stack(batch.images)));
}

at::Tensor SynchronousEngine::collect() {
  if (computed_.empty()) throw Error(ErrorCode::internal, "no batch is under way", "Engine");
  Outputs oldest = std::move(computed_.front());
  computed_.pop_front();
  trace_ = std::move(oldest.trace);
  return oldest.logits;
}

at::Tensor SynchronousEngine::take_traced_tokens() { return std::exchange(trace_, {}); }

}  // namespace hydrascope::model::inference
