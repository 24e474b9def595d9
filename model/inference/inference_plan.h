// A model compiled for inference on the CPU: weights prepacked once, an executor for the image size
// at hand (another size replaces it), no lock per call and no allocation but the logits'. Its
// logits agree with the modules' within the storage type's rounding
// (tests/model/inference/plan_test.cpp).
#pragma once

#include "kernels/device/thread_team.h"
#include "model/inference/cpu/observers.h"
#include "model/inference/cpu/packed_network.h"
#include "model/inference/cpu/streaming_executor.h"
#include "model/inference/engine.h"
#include "model/inference/model_parts.h"
#include "model/weight_table.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace hydrascope::model::inference {

class InferencePlan final : public Engine {
 public:
  /// With Kernels::fused Error(invalid_argument) names a layer without kernels.
  InferencePlan(const WeightTable& weights, const InferenceOptions& options);

  /// Plans an executor for `batch` images of that size, unless the current one serves. `splits`: as in
  /// ExecutionOptions.
  void prepare(std::int64_t batch, std::int64_t height, std::int64_t width,
               std::optional<bool> splits = {});
  /// The tokens that enter the blocks `layers` (ascending, at least one), float32 (B, layers, N,
  /// D). The number of blocks stands for the tokens that leave the last block; only the tokens that
  /// the classifier reads are then set. If `logits` is null, blocks behind the last of `layers` are
  /// not computed. One call at a time.
  at::Tensor tokens(const at::Tensor& images, const std::vector<std::int64_t>& layers,
                    at::Tensor* logits = nullptr, Observers observers = {});

  [[nodiscard]] EngineDescription describe() const override;
  bool collect_stage_times(StageTimes* times) noexcept override;

 private:
  EngineOutputs run(const ImageBatch& batch) override;
  void check(const at::Tensor& images) const;
  /// Logits (B, num_classes).
  at::Tensor execute(const at::Tensor& images, Observers observers);

  ModelParts parts_;
  kernels::device::ThreadTeam team_;
  PackedNetwork network_;
  AnyExecutor executor_;  ///< for the image size at hand, or null
  StageTimes* times_ = nullptr;
};

}  // namespace hydrascope::model::inference
