#include "model/inference/gpu/device_mixing.h"

#include "kernels/hydra/hydra_cuda.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "model/attention/hydra_attention.h"
#include "model/attention/linear/linear_form.h"
#include "model/attention/softmax_form.h"

#include <ATen/ATen.h>

#include <array>

namespace hydrascope::model::inference {
namespace {

namespace hydra_cuda = kernels::hydra::cuda;
namespace linear_attention_cuda = kernels::linear_attention::cuda;
using kernels::linear::cuda::ProductType;

template <class T>
kernels::device::Rows<T> rows(T* first, std::int64_t stride, std::int64_t count) {
  return {first, stride, count * stride};
}

/// The layers of a model on a device. Each class below takes one and says which of them it serves.
struct DeviceSite {
  ProductType type;
  c10::Device device;
  std::int64_t num_heads;
  std::int64_t head_dim;
  [[nodiscard]] std::int64_t dim() const { return num_heads * head_dim; }
};

class DeviceSoftmax final : public DeviceMixing {
 public:
  DeviceSoftmax(const SoftmaxForm& form, const DeviceSite&) : form_(form) {}
  static bool serves(const SoftmaxForm&, const DeviceSite&) { return true; }
  [[nodiscard]] std::optional<double> softmax_scale(const TokenGrid& grid) const override {
    return form_.query_scale(grid);
  }

 private:
  const SoftmaxForm& form_;
};

class DeviceHydra final : public DeviceMixing {
 public:
  DeviceHydra(const HydraForm& form, const DeviceSite& site)
      : form_(form), type_(site.type), dim_(site.dim()) {
    if (form.feature_scale().defined())
      feature_scale_ = form.feature_scale().detach().to(site.device, at::kFloat).contiguous();
  }
  static bool serves(const HydraForm&, const DeviceSite& site) {
    bool served = false;
    with_storage(site.type, [&]<class T>() { served = hydra_cuda::serves<T>(site.dim()); });
    return served;
  }

  [[nodiscard]] Room room(const Extent& extent) const override {
    return {.state = static_cast<std::size_t>(extent.images * dim_) * sizeof(float),
            .counters = hydra_cuda::workspace_bytes(shape(extent))};
  }
  [[nodiscard]] std::function<void()> launches(const Call& call) const override {
    std::function<void()> launch;
    with_storage(type_, [&]<class T>() {
      const std::int64_t tokens = call.extent.grid.num_tokens();
      hydra_cuda::ForwardParams<T> params{};
      params.shape = shape(call.extent);
      params.q = rows(static_cast<const T*>(call.q), call.q_stride, call.extent.queries);
      params.k = rows(static_cast<const T*>(call.k), call.kv_stride, tokens);
      params.v = rows(static_cast<const T*>(call.v), call.kv_stride, tokens);
      params.feature_scale =
          feature_scale_.defined() ? feature_scale_.const_data_ptr<float>() : nullptr;
      params.global = call.state;
      params.y = rows(static_cast<T*>(call.y), dim_, call.extent.queries);
      params.workspace = call.counters;
      launch = [params, stream = call.stream] { hydra_cuda::forward(params, stream); };
    });
    return launch;
  }

 private:
  [[nodiscard]] hydra_cuda::Shape shape(const Extent& extent) const {
    return {extent.images, extent.grid.num_tokens(), extent.queries,
            dim_,          form_.kernel(),           form_.token_weights(extent.grid)};
  }

  const HydraForm& form_;
  ProductType type_;
  std::int64_t dim_;
  at::Tensor feature_scale_;
};

class DeviceLinearAttention final : public DeviceMixing {
 public:
  DeviceLinearAttention(const LinearForm& form, const DeviceSite& site)
      : form_(form), type_(site.type), shape_(form.shape(site.num_heads, site.head_dim)) {}
  static bool serves(const LinearForm& form, const DeviceSite& site) {
    bool served = false;
    with_storage(site.type, [&]<class T>() {
      served = linear_attention_cuda::serves<T>(form.shape(site.num_heads, site.head_dim),
                                                {1, 1, 1, {}});
    });
    return served;
  }

  [[nodiscard]] Room room(const Extent& extent) const override {
    return {.state = linear_attention_cuda::state_floats(shape_, tokens_of(extent)) * sizeof(float),
            .workspace = linear_attention_cuda::workspace_bytes(shape_, tokens_of(extent))};
  }
  [[nodiscard]] std::function<void()> launches(const Call& call) const override {
    std::function<void()> launch;
    with_storage(type_, [&]<class T>() {
      if constexpr (sizeof(T) == 2) {  // the others are not served
        const std::int64_t tokens = call.extent.grid.num_tokens();
        linear_attention_cuda::ForwardParams<T> params{};
        params.shape = shape_;
        params.extent = tokens_of(call.extent);
        params.q = rows(static_cast<const T*>(call.q), call.q_stride, call.extent.queries);
        params.k = rows(static_cast<const T*>(call.k), call.kv_stride, tokens);
        params.v = rows(static_cast<const T*>(call.v), call.kv_stride, tokens);
        params.y =
            rows(static_cast<T*>(call.y), shape_.num_heads * shape_.head_dim, call.extent.queries);
        params.state = call.state;
        params.workspace = call.workspace;
        launch = [params, stream = call.stream] { linear_attention_cuda::forward(params, stream); };
      }
    });
    return launch;
  }

 private:
  [[nodiscard]] linear_attention_cuda::Extent tokens_of(const Extent& extent) const {
    return {extent.images, extent.grid.num_tokens(), extent.queries,
            form_.token_weights(extent.grid)};
  }

  const LinearForm& form_;
  ProductType type_;
  kernels::linear_attention::Shape shape_;
};

/// A row of the table: the mixing of a form of type `Form`, or null.
template <class Form, class Mixing>
std::unique_ptr<DeviceMixing> mixing_of_kind(const KernelForm& form, const DeviceSite& site) {
  const auto* const own = dynamic_cast<const Form*>(&form);
  return own != nullptr && Mixing::serves(*own, site) ? std::make_unique<Mixing>(*own, site)
                                                      : nullptr;
}

/// The kinds of mixing that a GPU has.
constexpr std::array kKinds{mixing_of_kind<SoftmaxForm, DeviceSoftmax>,
                            mixing_of_kind<HydraForm, DeviceHydra>,
                            mixing_of_kind<LinearForm, DeviceLinearAttention>};

}  // namespace

std::unique_ptr<DeviceMixing> device_mixing(const KernelForm& form, ProductType type,
                                            c10::Device device, std::int64_t num_heads,
                                            std::int64_t head_dim) {
  for (const auto& kind : kKinds)
    if (auto mixing = kind(form, {type, device, num_heads, head_dim})) return mixing;
  return nullptr;
}

}  // namespace hydrascope::model::inference
