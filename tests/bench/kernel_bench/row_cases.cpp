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

constexpr std::int64_t kImages = sized(8, 2);
constexpr std::int64_t kTokens = sized(8161, 70);
constexpr std::int64_t kRows = kImages * kTokens;
constexpr std::int64_t kDim = sized(768, 128);

Case layer_norm_case() {
  constexpr std::size_t kCount = kRows * kDim;
  const auto values = static_cast<double>(kCount);
  return {"layer_norm",
          "rows 8 x 8161, D 768",
          "bfloat16",
          2 * values * sizeof(BFloat16),
          10 * values,
          [](Stream) -> Work {
            struct Tensors {
              DeviceMemory<BFloat16> x, y;
              DeviceMemory<float> weight, bias;
            };
            auto t = std::make_shared<Tensors>();
            t->x = random_memory<BFloat16>(kCount, 1);
            t->y = DeviceMemory<BFloat16>(kCount);
            t->weight = random_memory<float>(kDim, 3);
            t->bias = random_memory<float>(kDim, 4);
            const kernels::layer_norm::cuda::LayerNormParams<BFloat16> params{
                t->x.data(),    kDim,  kRows,       kDim, t->weight.data(),
                t->bias.data(), 1e-6F, t->y.data(), kDim};
            return {[=](Stream s) { kernels::layer_norm::cuda::layer_norm(params, s); },
                    {},
                    [t] { return is_finite(t->y); }};
          }};
}

/// In place, so that its input is brought back every time: a GELU of a GELU tends to zeros.
Case gelu_case() {
  constexpr std::int64_t kCount = kRows * 4 * kDim;
  const auto values = static_cast<double>(kCount);
  return {"gelu",
          "rows 8 x 8161, 4 D 3072",
          "float32",
          2 * values * sizeof(float),
          20 * values,
          [](Stream) -> Work {
            struct Tensors {
              DeviceMemory<float> x, values;
            };
            auto t = std::make_shared<Tensors>();
            t->x = random_memory<float>(kCount, 1);
            t->values = DeviceMemory<float>(kCount);
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
            const kernels::token_rows::cuda::MeanOfPatchesParams<BFloat16> params{
                t->x.data(), kDim, kTokens * kDim, kImages, kTokens, 1, kDim, t->y.data(), kDim};
            return {[=](Stream s) { kernels::token_rows::cuda::mean_of_patches(params, s); },
                    {},
                    [t] { return is_finite(t->y); }};
          }};
}

}  // namespace

std::vector<Case> row_cases() { return {layer_norm_case(), gelu_case(), mean_case()}; }

}  // namespace hydrascope::bench
