// A model as a GPU runs it, for one number and size of images: matrix products by
// kernels::linear::cuda::Products, the work between them by the kernels' CUDA functions; softmax,
// mechanisms without kernels, prefix tokens, pooling and float32's GELU by LibTorch's device-independent
// interfaces. cuda_plan.h adds streams and copies.
//
// A block, for B images of N tokens (x: B N rows of D in the plan's type):
//   n = norm(x); [q k v] = n W^T + b; y = mixing(q, k, v); x += y W^T + b
//   n = norm(x); h = gelu(n W^T + b); x += h W^T + b
// Behind the last block's keys and values only the prefix tokens go on, unless all tokens are
// averaged. GELU: the tanh form in 16-bit types (cuBLASLt's epilogue; within their rounding), erf
// in float32.
#pragma once

#include "kernels/device/stream.h"
#include "kernels/linear/products.h"
#include "model/inference/gpu/device_patches.h"
#include "model/inference/gpu/device_products.h"
#include "model/inference/gpu/device_weights.h"
#include "model/inference/gpu/launch_recorder.h"
#include "model/inference/gpu/softmax_backend.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hydrascope::model::inference {

struct DevicePlanOptions {
  kernels::device::Stream stream = nullptr;  ///< LibTorch's current one whenever the plan is called
  bool deterministic = false;
  std::vector<std::int64_t> trace_layers;  ///< blocks whose incoming tokens are kept, ascending
};

class DevicePlan {
 public:
  struct Shape {
    std::int64_t batch;
    std::int64_t height;
    std::int64_t width;
  };

  /// Plans memory and products for `shape.batch` images of that size. References must outlive the
  /// plan.
  DevicePlan(DeviceWeights& weights, DevicePlanOptions options,
             kernels::linear::cuda::Products& products, const Shape& shape);
  DevicePlan(const DevicePlan&) = delete;  // steps point into it
  DevicePlan& operator=(const DevicePlan&) = delete;

  [[nodiscard]] const Shape& shape() const { return shape_; }

  /// The first step, apart from `run` because its input lies elsewhere each time. At most `batch`
  /// images of the prepared size, on the device: float32 (count, C, H, W), or bytes.
  void patchify(const at::Tensor& images);
  void patchify(const PixelImages& images);
  /// Everything else, for `batch` images. Logits of images beyond the patchified ones are
  /// undefined.
  void run();
  /// float32 (batch, num_classes), written by `run`.
  [[nodiscard]] const at::Tensor& logits() const { return logits_; }
  /// (batch, trace_layers, N, D) in the plan's type, written by `run`; undefined without layers.
  [[nodiscard]] const at::Tensor& trace() const { return trace_; }
  /// The backend of LibTorch's softmax; see SoftmaxBackend::name.
  [[nodiscard]] std::string softmax() const { return softmax_.name(); }

 private:
  /// One launch or several of ours, or a call of LibTorch.
  struct Step {
    bool recordable = true;
    std::function<void()> run;
  };
  /// Tokens that a block's second half works on.
  struct Tokens {
    void* x = nullptr;
    std::int64_t count = 0;         ///< per image
    std::int64_t image_stride = 0;  ///< in elements
  };

  [[nodiscard]] at::ScalarType scalar_type() const { return weights_.scalar_type(); }
  [[nodiscard]] std::int64_t num_tokens() const { return grid_.num_tokens(); }
  [[nodiscard]] DevicePatches patches() const {
    return {weights_, grid_, batch_, wide_, options_.stream};
  }

  template <class T>
  void build();
  template <class T>
  void add_norm(const T* x, std::int64_t rows, T* y);
  template <class T>
  void add_block(std::size_t layer);
  template <class T>
  void add_mixing(std::size_t layer, const Tokens& rest, const T* q, std::int64_t q_stride,
                  const T* kv, std::int64_t kv_stride);
  /// Mixes by LibTorch, then runs `proj`. Without `softmax_scale` the layer's module mixes.
  template <class T>
  void add_foreign_mixing(std::size_t layer, ProductCall proj, const T* q, std::int64_t q_stride,
                          const T* kv, std::int64_t kv_stride, std::optional<double> softmax_scale);
  template <class T>
  void add_head(const Tokens& tokens, const at::Tensor& x);
  /// The head's normed inputs of x (B, N or num_prefix, D), by LibTorch: a few rows. A mean is of
  /// tokens that are normed but for weight and bias.
  void pool(const at::Tensor& x);
  /// A call of the product and, if the library's product has no such GELU, of LibTorch's.
  void add_product(const ProductCall& call);
  void run(int product, const ProductCall& call, const void* x);
  void add(std::function<void()> launches) { steps_.push_back({true, std::move(launches)}); }
  void add_foreign(std::function<void()> call) { steps_.push_back({false, std::move(call)}); }
  DeviceWeights& weights_;
  DevicePlanOptions options_;
  kernels::linear::cuda::Products& products_;
  LaunchRecorder recorder_;
  SoftmaxBackend softmax_;
  Shape shape_;

  std::int64_t batch_ = 0;
  TokenGrid grid_;
  at::Tensor prefix_;     ///< (num_prefix, D)
  at::Tensor position_;   ///< (patches and overview, D)
  at::Tensor x_;          ///< (B, N, D)
  at::Tensor normed_;     ///< (B, N, D)
  at::Tensor mixed_;      ///< (B, N, D)
  at::Tensor wide_;       ///< patch rows, then [q k v] and the MLP's hidden features in turns
  at::Tensor queries_;    ///< the last block's, (B, num_prefix, query width)
  at::Tensor ends_;       ///< the last block's, (B, num_prefix, D)
  at::Tensor global_;     ///< the mixings' sums over the keys
  at::Tensor workspace_;  ///< the mixings'
  at::Tensor counters_;   ///< zero between calls
  at::Tensor pooled_;     ///< (heads, B, D) float32
  at::Tensor logits_;
  at::Tensor trace_;
  /// Rows of a block's weights, as steps need them.
  std::vector<std::unique_ptr<DeviceLinear>> parts_;
  std::vector<Step> steps_;
};

}  // namespace hydrascope::model::inference
