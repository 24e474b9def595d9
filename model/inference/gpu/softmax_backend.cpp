#include "model/inference/gpu/softmax_backend.h"

#include "kernels/device/event.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace hydrascope::model::inference {
namespace {

struct Backend {
  const char* name;
  void (at::Context::*enable)(bool);
  bool (at::Context::*enabled)() const;
};
/// A deterministic run takes the first that runs, in this order; the last writes the N x N matrix.
constexpr std::array<Backend, 4> kBackends{
    {{"flash", &at::Context::setSDPUseFlash, &at::Context::userEnabledFlashSDP},
     {"cudnn", &at::Context::setSDPUseCuDNN, &at::Context::userEnabledCuDNNSDP},
     {"efficient", &at::Context::setSDPUseMemEfficient, &at::Context::userEnabledMemEfficientSDP},
     {"math", &at::Context::setSDPUseMath, &at::Context::userEnabledMathSDP}}};
constexpr int kTimedRuns = 3;

/// Leaves LibTorch one backend while it lives, and restores the former backends.
class OnlyBackend {
 public:
  explicit OnlyBackend(int which) {
    at::Context& context = at::globalContext();
    for (std::size_t i = 0; i < kBackends.size(); ++i) {
      before_[i] = (context.*kBackends[i].enabled)();
      (context.*kBackends[i].enable)(static_cast<int>(i) == which);
    }
  }
  OnlyBackend(const OnlyBackend&) = delete;
  OnlyBackend& operator=(const OnlyBackend&) = delete;
  ~OnlyBackend() {
    for (std::size_t i = 0; i < kBackends.size(); ++i)
      (at::globalContext().*kBackends[i].enable)(before_[i]);
  }

 private:
  std::array<bool, kBackends.size()> before_{};
};

/// LibTorch warns of every reason why a backend cannot run a shape; here that is no news.
class NoWarnings final : public c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

}  // namespace

SoftmaxBackend::SoftmaxBackend(kernels::device::Stream stream, bool deterministic)
    : stream_(stream), choice_(static_cast<int>(kBackends.size()), deterministic) {}

at::Tensor SoftmaxBackend::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  std::vector<std::int64_t> shape;
  for (const at::Tensor& each : {q, k, v}) {
    shape.insert(shape.end(), each.sizes().begin(), each.sizes().end());
    shape.insert(shape.end(), each.strides().begin(), each.strides().end());
  }
  const auto run = [&](int backend) {
    const OnlyBackend only(backend);
    return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/false, /*scale=*/1.0);
  };
  const auto time = [&](const std::function<void()>& work) {
    return kernels::device::milliseconds_of(stream_, kTimedRuns, "softmax attention", work);
  };
  NoWarnings handler;
  const c10::WarningUtils::WarningHandlerGuard quiet(&handler);
  return choice_.compute(shape, run, time);
}

std::string SoftmaxBackend::name() const {
  std::string names;
  for (const int backend : choice_.chosen())
    names +=
        (names.empty() ? "" : "/") + std::string(kBackends[static_cast<std::size_t>(backend)].name);
  return names;
}

}  // namespace hydrascope::model::inference
