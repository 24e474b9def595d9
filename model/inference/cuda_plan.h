// A DevicePlan on a CUDA GPU: its own stream, the launches captured once per shape as CUDA graphs,
// and two batches on their way at a time, so that one is copied from pinned memory while the other
// is computed.
#pragma once

#include "model/device.h"
#include "model/inference/image_batch.h"
#include "model/vision_transformer.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hydrascope::model::inference {

struct CudaPlanOptions {
  c10::Device device{c10::kCUDA, 0};
  Precision precision;
  Kernels kernels = Kernels::automatic;
  /// The same algorithms in every run instead of the fastest ones of this one.
  bool deterministic = false;
  std::vector<std::int64_t> trace_layers;              ///< as PlanOptions'
  std::function<void(std::int64_t layer)> fill_block;  ///< as PlanOptions'
};

class CudaPlan {
 public:
  /// Batches that may be on their way at once.
  static constexpr int kSlots = 2;

  CudaPlan() = default;
  CudaPlan(const CudaPlan&) = delete;
  CudaPlan& operator=(const CudaPlan&) = delete;
  virtual ~CudaPlan() = default;

  /// Starts a batch and returns; at most kSlots may be uncollected. Plans of a few image sizes are
  /// kept; another size, or many more or fewer images, waits for what is on its way and is planned.
  /// c10::OutOfMemoryError or Error(out_of_memory) leaves nothing started.
  virtual void submit(const ImageBatch& batch) = 0;
  /// Waits for the oldest batch: float32 (count, num_classes) on the CPU.
  virtual at::Tensor collect() = 0;
  /// As BatchModel's, on the device.
  [[nodiscard]] virtual at::Tensor take_traced_tokens() = 0;
  [[nodiscard]] virtual int pending() const = 0;

  /// As DevicePlan's, and after it LibTorch's backend that softmax layers run on, once the fastest
  /// for the shape at hand is chosen: "fused+softmax:cudnn" (flash, cudnn, efficient, math).
  [[nodiscard]] virtual std::string kernels() const = 0;
};

/// `model`: float32 parameters on the CPU; it is of no other use afterwards. Errors as
/// InferencePlan's; Error(failed) in a build without CUDA.
std::unique_ptr<CudaPlan> make_cuda_plan(VisionTransformer model, const CudaPlanOptions& options);

}  // namespace hydrascope::model::inference
