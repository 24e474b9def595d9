// What a pipeline of pictures needs of a model: batches in, logits out, perhaps several under way.
#pragma once

#include "model/inference/image_batch.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hydrascope::model::inference {

class BatchModel {
 public:
  virtual ~BatchModel() = default;

  /// Starts a batch: at most `most_under_way` may be submitted and not collected. Throws
  /// Error(out_of_memory) when the device says so; a batch whose `submit` throws is not under way.
  virtual void submit(const ImageBatch& batch) = 0;
  /// Waits for the oldest: float32 (B, num_classes) on the CPU.
  virtual at::Tensor collect() = 0;
  /// Gives once, for the batch that `collect` gave last, the tokens that entered the blocks of
  /// ClassifierOptions::trace_layers, float32 (B, layers, N, D), on any device; undefined where
  /// none are traced.
  [[nodiscard]] virtual at::Tensor take_traced_tokens() { return {}; }
  [[nodiscard]] virtual int under_way() const noexcept = 0;
  [[nodiscard]] virtual int most_under_way() const noexcept = 0;
  /// Whether `submit` takes bytes, and spares the caller their normalisation.
  [[nodiscard]] virtual bool takes_bytes() const noexcept = 0;
  /// Tokens of one image of that size, prefix tokens included.
  [[nodiscard]] virtual std::int64_t num_tokens(std::int64_t height,
                                                std::int64_t width) const noexcept = 0;
  /// Tokens of a batch that keep the processor busy; more only add latency and memory.
  [[nodiscard]] virtual std::int64_t enough_tokens() const noexcept = 0;

 protected:
  BatchModel() = default;
  BatchModel(const BatchModel&) = default;
  BatchModel(BatchModel&&) = default;
  BatchModel& operator=(const BatchModel&) = default;
  BatchModel& operator=(BatchModel&&) = default;
};

}  // namespace hydrascope::model::inference
