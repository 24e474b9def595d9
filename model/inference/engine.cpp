#include "model/inference/engine.h"

#include "model/autocast_guard.h"
#include "model/precision_guard.h"
#include "model/torch_errors.h"

#include <ATen/ops/stack.h>

#include <sstream>

namespace hydrascope::model::inference {

namespace {

constexpr const char* kLessOfABatch = "a smaller `batch_size` or `img_size` needs less";

}  // namespace

at::Tensor ImageBatch::stacked() const {
  if (on_device.defined()) return on_device;
  return images.size() == 1 ? images.front().unsqueeze(0) : at::stack(images);
}

PendingBatch Engine::start(const ImageBatch& batch) {
  // An engine has its own precision, also inside the training of another model (a teacher).
  const AutocastGuard off(options_.device.type(), {});
  const PrecisionGuard guard(options_.precision.tf32, options_.deterministic);
  std::ostringstream shape;
  shape << "a batch of " << batch.size() << " images of " << batch.height << "x" << batch.width;
  const auto of_device = [this](const std::string& what, const auto& work) {
    return with_torch_errors(what, options_.device.str(), kLessOfABatch, work);
  };
  PendingBatch::Wait wait = of_device(shape.str(), [&] { return begin(batch); });
  return PendingBatch([of_device, wait = std::move(wait)] { return of_device("the batch", wait); });
}

EngineOutputs Engine::compute(const at::Tensor& images) {
  ImageBatch batch;
  if (images.dim() == 4) {
    batch.height = images.size(2);
    batch.width = images.size(3);
  }
  if (images.is_cpu() && !options_.device.is_cpu())
    batch.images = images.unbind();
  else
    batch.on_device = images.contiguous();
  return compute(batch);
}

}  // namespace hydrascope::model::inference
