// A model compiled for inference on the CPU: weights prepacked once, a workspace for the image size
// at hand (another size replaces it), no lock per call and no allocation but the logits'. Its
// logits agree with the modules' within what the storage type's rounding explains
// (tests/model/inference/plan_test.cpp).
#pragma once

#include "model/inference/network_packer.h"
#include "model/inference/observers.h"
#include "model/vision_transformer.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::model::inference {

struct PlanOptions {
  at::ScalarType dtype = at::kFloat;  ///< kFloat or kBFloat16
  /// Blocks' weights and the rows they meet in 8 bits, the rest in `dtype`.
  bool int8 = false;
  /// For int8: images (B, C, H, W), normalised, that show how large the channels get. May be
  /// undefined.
  at::Tensor calibration;
  /// Share of the patch tokens that go on after block `keep_layer`, see TokenReduction; 1: all.
  double keep_tokens = 1;
  /// By default the first layer that can drop tokens, from a quarter of the depth on.
  std::optional<std::int64_t> keep_layer;
  std::vector<std::int64_t> trace_layers;  ///< ascending; not with `keep_tokens`
  Kernels kernels = Kernels::automatic;
  int threads = 1;
  /// The same tiles whatever the batch and the number of threads, hence the same bits.
  bool deterministic = false;
  /// Drop the modules' matrices while packing; the model is of no other use afterwards.
  bool release_model = false;
  /// Called once for each block before it is read, to load it, so that a model that is released
  /// never exists whole; empty: the model is filled.
  std::function<void(std::int64_t layer)> fill_block;
  /// Whether blocks may be filled in any order, several at a time: small ones then are.
  bool fills_in_any_order = false;
};

/// Of its matrices in float32.
std::int64_t bytes_of_a_block(const VitConfig& config);

class InferencePlan {
 public:
  /// Why there is no plan for this dtype; empty where there is one.
  static std::string unsupported(at::ScalarType dtype);

  /// `model`: float32 parameters on the CPU, in evaluation mode. Kernels::fused refuses a layer
  /// whose mechanism has no kernels, `keep_tokens` a model that it cannot serve:
  /// Error(invalid_argument) that says which layer and why.
  InferencePlan(VisionTransformer model, const PlanOptions& options);
  ~InferencePlan();
  InferencePlan(InferencePlan&&) noexcept;
  InferencePlan& operator=(InferencePlan&&) noexcept;

  /// Plans the workspace for `batch` images of that size, unless the current one serves.
  void prepare(std::int64_t batch, std::int64_t height, std::int64_t width);
  /// images: float32 (B, C, H, W) on the CPU, normalised -> float32 (B, num_classes). `times` and
  /// `trace` may be null; `trace` becomes the tokens that enter the blocks of
  /// PlanOptions::trace_layers, float32 (B, layers, N, D). One call at a time.
  at::Tensor logits(const at::Tensor& images, StageTimes* times = nullptr,
                    at::Tensor* trace = nullptr);

  /// The block after whose attention tokens are dropped; -1: none are.
  [[nodiscard]] std::int64_t keep_layer() const;
  /// How many of an image's patches go on after it.
  [[nodiscard]] std::int64_t kept_patches(std::int64_t patches) const;
  /// What runs: "fused", or "fused+modules" where mechanisms without kernels run as modules.
  [[nodiscard]] std::string kernels() const;
  [[nodiscard]] std::size_t workspace_bytes() const;

 private:
  at::Tensor run(const at::Tensor& images, const Observers& observers);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydrascope::model::inference
