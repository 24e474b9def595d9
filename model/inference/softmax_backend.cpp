#include "model/inference/softmax_backend.h"

#include "kernels/device/launch.h"
#include "kernels/error.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <array>
#include <limits>

namespace hydrascope::model::inference {
namespace {

using kernels::device::check_cuda;

struct Backend {
  const char* name;
  void (at::Context::*enable)(bool);
};
/// In the order that --deterministic takes the first from.
constexpr std::array<Backend, 4> kBackends{{{"flash", &at::Context::setSDPUseFlash},
                                            {"cudnn", &at::Context::setSDPUseCuDNN},
                                            {"efficient", &at::Context::setSDPUseMemEfficient},
                                            {"math", &at::Context::setSDPUseMath}}};
constexpr int kTimedRuns = 3;

void enable_only(int which) {
  for (std::size_t i = 0; i < kBackends.size(); ++i)
    (at::globalContext().*kBackends[i].enable)(static_cast<int>(i) == which);
}

at::Tensor attend_now(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/false, /*scale=*/1.0);
}

/// LibTorch warns of every reason why a backend cannot run a shape; here that is no news.
class NoWarnings final : public c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

}  // namespace

at::Tensor SoftmaxBackend::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (chosen_ < 0) choose(q, k, v);
  enable_only(chosen_);
  return attend_now(q, k, v);
}

void SoftmaxBackend::choose(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  NoWarnings handler;
  const c10::WarningUtils::WarningHandlerGuard quiet(&handler);
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check_cuda(cudaEventCreate(&begin), "cudaEventCreate");
  check_cuda(cudaEventCreate(&end), "cudaEventCreate");
  float best = std::numeric_limits<float>::infinity();
  constexpr int kMath = static_cast<int>(kBackends.size()) - 1;
  for (int each = 0; each <= kMath; ++each) {
    if (each == kMath && chosen_ >= 0)
      break;  // it writes the N x N matrix: only where nothing else runs
    enable_only(each);
    try {
      attend_now(q, k, v);
      check_cuda(cudaEventRecord(begin, stream_), "cudaEventRecord");
      for (int i = 0; i < kTimedRuns; ++i) attend_now(q, k, v);
      check_cuda(cudaEventRecord(end, stream_), "cudaEventRecord");
      check_cuda(cudaEventSynchronize(end), "softmax attention");
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error&) {
      continue;  // not for this shape, dtype or GPU
    }
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    if (milliseconds < best) {
      best = milliseconds;
      chosen_ = each;
    }
    if (deterministic_) break;
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  if (chosen_ < 0)
    throw Error(ErrorCode::failed, "none of LibTorch's backends runs it", "softmax attention");
}

std::string SoftmaxBackend::name() const {
  return chosen_ < 0 ? "" : kBackends[static_cast<std::size_t>(chosen_)].name;
}

}  // namespace hydrascope::model::inference
