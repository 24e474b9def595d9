// A model's folded parameters on a device, in the type that its products read: loaded once, used by
// the plans of all image sizes (device_plan.h).
#pragma once

#include "kernels/linear/products.h"
#include "model/inference/folded_network.h"
#include "model/inference/gpu/device_mixing.h"
#include "model/inference/inference_options.h"
#include "model/inference/model_parts.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hydrascope::model::inference {

/// y = x weight^T + bias.
struct DeviceLinear {
  at::Tensor weight;  ///< (out, in), contiguous
  at::Tensor bias;    ///< (out)
  [[nodiscard]] std::int64_t in() const { return weight.size(1); }
  [[nodiscard]] std::int64_t out() const { return weight.size(0); }
};

struct DeviceBlock {
  DeviceLinear qkv;
  std::int64_t query_width = 0;
  DeviceLinear proj;
  DeviceLinear fc1;
  DeviceLinear fc2;
  std::unique_ptr<DeviceMixing> mixing;  ///< reads the form in `parts`; null: the layer's module
};

class DeviceWeights {
 public:
  /// Errors as InferencePlan's.
  DeviceWeights(const WeightTable& weights, const InferenceOptions& options);

  c10::Device device;
  kernels::linear::cuda::ProductType type;
  Kernels chosen_kernels;
  ModelParts parts;
  std::int64_t num_prefix = 0;
  DeviceLinear patch_embed;
  std::vector<DeviceBlock> blocks;
  at::Tensor norm_weight;  ///< the head's, float32
  at::Tensor norm_bias;
  DeviceLinear classifier;  ///< float32
  DeviceLinear distilled;

  [[nodiscard]] at::ScalarType scalar_type() const;
  /// "fused", or "fused+modules" if mechanisms without kernels run as modules.
  [[nodiscard]] std::string what_runs() const;
  [[nodiscard]] bool has_softmax() const;

 private:
  [[nodiscard]] DeviceLinear load(const Affine& affine, at::ScalarType as) const;
};

}  // namespace hydrascope::model::inference
