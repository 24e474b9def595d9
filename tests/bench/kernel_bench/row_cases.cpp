#include "kernels/device/launch.h"
#include "kernels/gelu/gelu_cuda.h"
#include "kernels/layer_norm/layer_norm_cuda.h"
#include "kernels/token_rows/token_rows_cuda.h"
#include "tests/bench/kernel_bench/device_memory.h"
#include "tests/bench/kernel_bench/work.h"

#include <cuda_runtime_api.h>

#include <memory>

namespace hydrascope::bench {
namespace {

using kernels::BFloat16;
using kernels::device::Stream;

constexpr std::int64_t kImages = 8;
constexpr std::int64_t kTokens = 8161;
constexpr std::int64_t kRows = kImages * kTokens;
constexpr std::int64_t kDim = 768;

Case layer_norm_case(bool with_residual) {
  const double values = static_cast<double>(kRows * kDim);
  Case result{with_residual ? "layer_norm with residual" : "layer_norm",
              "rows 8 x 8161, D 768",
              "bfloat16",
              (with_residual ? 4 : 2) * values * sizeof(BFloat16),
              10 * values,
              {}};
  result.prepare = [with_residual](Stream) -> Work {
    struct Tensors {
      DeviceMemory<BFloat16> x, residual, sum, y;
      DeviceMemory<float> weight, bias;
    };
    constexpr std::size_t kCount = kRows * kDim;
    auto t = std::make_shared<Tensors>();
    t->x = random_memory<BFloat16>(kCount, 1);
    t->y = DeviceMemory<BFloat16>(kCount);
    t->weight = random_memory<float>(kDim, 3);
    t->bias = random_memory<float>(kDim, 4);
    kernels::layer_norm::cuda::LayerNormParams<BFloat16> params{};
    params.x = t->x.data();
    params.y = t->y.data();
    params.x_stride = params.residual_stride = params.sum_stride = params.y_stride = kDim;
    params.rows = kRows;
    params.dim = kDim;
    params.weight = t->weight.data();
    params.bias = t->bias.data();
    params.eps = 1e-6F;
    if (with_residual) {
      t->residual = random_memory<BFloat16>(kCount, 2);
      t->sum = DeviceMemory<BFloat16>(kCount);
      params.residual = t->residual.data();
      params.sum = t->sum.data();
    }
    return {[=](Stream s) { kernels::layer_norm::cuda::layer_norm(params, s); },
            {},
            [t] { return is_finite(t->y); }};
  };
  return result;
}

/// In place, so that its input is brought back every time: a GELU of a GELU tends to zeros.
Case gelu_case() {
  constexpr std::int64_t kCount = kRows * 4 * kDim;
  const auto values = static_cast<double>(kCount);
  return {"gelu",
          "rows 8 x 8161, 4 D 3072",
          "bfloat16",
          2 * values * sizeof(BFloat16),
          20 * values,
          [](Stream) -> Work {
            struct Tensors {
              DeviceMemory<BFloat16> x, values;
            };
            auto t = std::make_shared<Tensors>();
            t->x = random_memory<BFloat16>(kCount, 1);
            t->values = DeviceMemory<BFloat16>(kCount);
            const auto restore = [t](Stream s) {
              kernels::device::check_cuda(
                  cudaMemcpyAsync(t->values.data(), t->x.data(), t->x.bytes(),
                                  cudaMemcpyDeviceToDevice, s),
                  "cudaMemcpyAsync");
            };
            return {[t](Stream s) { kernels::gelu::cuda::gelu(t->values.data(), kCount, s); },
                    restore, [t] { return is_finite(t->values); }};
          }};
}

Case mean_case() {
  return {"token_rows mean",
          "B 8, N 8161, D 768",
          "bfloat16",
          static_cast<double>(kRows * kDim) * sizeof(BFloat16),
          static_cast<double>(kRows * kDim),
          [](Stream) -> Work {
            struct Tensors {
              DeviceMemory<BFloat16> x;
              DeviceMemory<float> y;
            };
            auto t = std::make_shared<Tensors>();
            t->x = random_memory<BFloat16>(kRows * kDim, 1);
            t->y = DeviceMemory<float>(kImages * kDim);
            const kernels::token_rows::cuda::MeanOfPatchesParams<BFloat16, float> params{
                t->x.data(), kDim, kTokens * kDim, kImages, kTokens, 1, kDim, t->y.data(), kDim};
            return {[=](Stream s) { kernels::token_rows::cuda::mean_of_patches(params, s); },
                    {},
                    [t] { return is_finite(t->y); }};
          }};
}

}  // namespace

std::vector<Case> row_cases() {
  return {layer_norm_case(false), layer_norm_case(true), gelu_case(), mean_case()};
}

}  // namespace hydrascope::bench
