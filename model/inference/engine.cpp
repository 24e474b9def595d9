#include "model/inference/engine.h"

#include "model/autocast_guard.h"
#include "model/inference/overlap.h"
#include "model/precision_guard.h"
#include "model/torch_errors.h"

#include <ATen/ops/stack.h>

#include <sstream>
#include <string>
#include <utility>

namespace hydrascope::model::inference {

namespace {

constexpr const char* kLessOfABatch = "a smaller `batch_size` or `img_size` needs less";

}  // namespace

at::Tensor ImageBatch::stacked() const {
  if (on_device.defined()) return on_device;
  return images.size() == 1 ? images.front().unsqueeze(0) : at::stack(images);
}

std::string ImageBatch::describe() const {
  std::ostringstream text;
  text << "a batch of " << size() << " images of " << height << "x" << width;
  return text.str();
}

void Engine::guarded(const std::string& what, const std::function<void()>& work) const {
  // An engine has its own precision, also inside the training of another model (a teacher).
  const AutocastGuard off(options_.device.type(), {});
  const PrecisionGuard guard(options_.precision.tf32, options_.deterministic);
  with_torch_errors(what, options_.device.str(), kLessOfABatch, work);
}

EngineOutputs Engine::compute(const ImageBatch& batch) {
  if (!options_.memory.empty()) {
    if (batch.size() != 1)
      throw Error(ErrorCode::internal, "frames of a video come one by one", batch.describe());
    const auto size = [](std::int64_t height, std::int64_t width) {
      return std::to_string(height) + "x" + std::to_string(width);
    };
    if (batch.goes_on && (batch.height != frame_height_ || batch.width != frame_width_))
      throw Error(ErrorCode::unsupported_format, "a frame of " + size(batch.height, batch.width) +
                                                     " after frames of " +
                                                     size(frame_height_, frame_width_) +
                                                     " (HxW); a memory holds frames of one size");
    frame_height_ = batch.height;
    frame_width_ = batch.width;
  }
  EngineOutputs outputs;
  guarded(batch.describe(), [&] { outputs = run(batch); });
  return outputs;
}

PendingBatch start(Engine& engine, const ImageBatch& batch) {
  Overlap* const overlap = engine.overlap();
  if (overlap == nullptr)
    return PendingBatch([outputs = engine.compute(batch)] { return outputs; });
  PendingBatch::Wait wait;
  engine.guarded(batch.describe(), [&] { wait = overlap->begin(batch); });
  return PendingBatch([&engine, wait = std::move(wait)] {
    EngineOutputs outputs;
    engine.guarded("the batch", [&] { outputs = wait(); });
    return outputs;
  });
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
