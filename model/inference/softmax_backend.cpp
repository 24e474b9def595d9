#include "model/inference/softmax_backend.h"

#include "kernels/device/event.h"
#include "kernels/error.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <array>
#include <limits>

namespace hydrascope::model::inference {
namespace {

using kernels::device::Event;

struct Backend {
  const char* name;
  void (at::Context::*enable)(bool);
  bool (at::Context::*enabled)() const;
};
/// In the order that --deterministic takes the first from.
constexpr std::array<Backend, 4> kBackends{
    {{"flash", &at::Context::setSDPUseFlash, &at::Context::userEnabledFlashSDP},
     {"cudnn", &at::Context::setSDPUseCuDNN, &at::Context::userEnabledCuDNNSDP},
     {"efficient", &at::Context::setSDPUseMemEfficient, &at::Context::userEnabledMemEfficientSDP},
     {"math", &at::Context::setSDPUseMath, &at::Context::userEnabledMathSDP}}};
constexpr int kTimedRuns = 3;

/// Leaves LibTorch one backend while it lives, and then those that it had.
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

at::Tensor attend_now(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/false, /*scale=*/1.0);
}

/// LibTorch warns of every reason why a backend cannot run a shape; here that is no news.
class NoWarnings final : public c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

}  // namespace

at::Tensor SoftmaxBackend::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (chosen_ < 0) chosen_ = choose(q, k, v);
  const OnlyBackend only(chosen_);
  return attend_now(q, k, v);
}

int SoftmaxBackend::choose(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const {
  NoWarnings handler;
  const c10::WarningUtils::WarningHandlerGuard quiet(&handler);
  Event begin(Event::Timing::on);
  Event end(Event::Timing::on);
  float best_time = std::numeric_limits<float>::infinity();
  int best = -1;
  constexpr int kMath = static_cast<int>(kBackends.size()) - 1;
  for (int each = 0; each <= kMath; ++each) {
    // The last one writes the N x N matrix: only where nothing else runs.
    if (best >= 0 && (each == kMath || deterministic_)) break;
    const OnlyBackend only(each);
    try {
      attend_now(q, k, v);
      begin.record(stream_);
      for (int i = 0; i < kTimedRuns; ++i) attend_now(q, k, v);
      end.record(stream_);
      end.wait("softmax attention");
    } catch (const c10::OutOfMemoryError&) {
      if (best < 0) throw;
      continue;  // another one needs less
    } catch (const c10::Error&) {
      continue;  // not for this shape, dtype or GPU
    }
    const float milliseconds = end.milliseconds_since(begin);
    if (milliseconds < best_time) {
      best_time = milliseconds;
      best = each;
    }
  }
  if (best < 0)
    throw Error(ErrorCode::failed, "none of LibTorch's backends runs it", "softmax attention");
  return best;
}

std::string SoftmaxBackend::name() const {
  return chosen_ < 0 ? "" : kBackends[static_cast<std::size_t>(chosen_)].name;
}

}  // namespace hydrascope::model::inference
