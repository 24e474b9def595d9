// The kernels of a layer but for its attention, and cuBLASLt's products.
#include "kernels/device/launch.h"
#include "kernels/layer_norm/layer_norm_cuda.h"
#include "kernels/linear/cublas_lt_products.h"
#include "kernels/patchify/patchify_cuda.h"
#include "scripts/bench/kernel_bench/device_memory.h"
#include "scripts/bench/kernel_bench/work.h"

#include <cuda_runtime_api.h>

#include <memory>

namespace hydrascope::bench {
namespace {

using kernels::BFloat16;
using kernels::device::Stream;
namespace linear = kernels::linear::cuda;

constexpr std::int64_t kImages = sized(8, 2);
constexpr std::int64_t kTokens = sized(8161, 70);
constexpr std::int64_t kRows = kImages * kTokens;
constexpr std::int64_t kDim = sized(768, 128);
constexpr std::int64_t kPatch = 16;
constexpr std::int64_t kGridRows = sized(1088, 32) / kPatch;
constexpr std::int64_t kGridColumns = sized(1920, 48) / kPatch;

Case layer_norm_case() {
  constexpr std::size_t kCount = kRows * kDim;
  constexpr auto kValues = static_cast<double>(kCount);
  return {"layer_norm",
          "rows 8 x 8161, D 768",
          "bfloat16",
          2 * kValues * sizeof(BFloat16),
          10 * kValues,
          [](Stream) -> Work {
            const auto x = random_memory<BFloat16>(kCount, 1);
            const DeviceMemory<BFloat16> y(kCount);
            const auto run = [=](Stream s) {
              kernels::layer_norm::cuda::layer_norm<BFloat16>(
                  {x.data(), kDim, kRows, kDim, 1e-6F, y.data(), kDim}, s);
            };
            return {run, [=] { return is_finite(y); }};
          }};
}

Case patchify_case(std::int64_t images) {
  const double values =
      static_cast<double>(images * kGridRows * kGridColumns * kPatch * kPatch * 3);
  return {"patchify",
          "B " + std::to_string(images) + ", 1088x1920 pixels, patch 16",
          "uint8 to bfloat16",
          values * (1 + sizeof(BFloat16)),
          2 * values,
          [images, values](Stream) -> Work {
            const auto pixels = random_memory<std::uint8_t>(static_cast<std::size_t>(values), 1);
            const DeviceMemory<BFloat16> y(static_cast<std::size_t>(values));
            constexpr std::int64_t kRowBytes = kGridColumns * kPatch * 3;
            constexpr float kScale = 1 / (255 * 0.225F);
            constexpr float kShift = -0.45F / 0.225F;
            const auto run = [=](Stream s) {
              kernels::patchify::cuda::from_pixels<BFloat16>({pixels.data(),
                                                              kRowBytes,
                                                              kRowBytes * kGridRows * kPatch,
                                                              images,
                                                              kGridRows,
                                                              kGridColumns,
                                                              kPatch,
                                                              kGridRows * kPatch,
                                                              kGridColumns * kPatch,
                                                              {kScale, kScale, kScale},
                                                              {kShift, kShift, kShift},
                                                              y.data()},
                                                             s);
            };
            return {run, [=] { return is_finite(y); }};
          }};
}

enum class Epilogue { bias, gelu, add };

Case product_case(const std::string& name, std::int64_t in, std::int64_t out, Epilogue epilogue) {
  constexpr std::int64_t kProductRows = sized(kRows, 48);
  linear::ProductShape shape;
  shape.type = linear::ProductType::bfloat16;
  shape.rows = kProductRows;
  shape.in = shape.x_stride = in;
  shape.out = shape.y_stride = shape.c_stride = out;
  shape.gelu = epilogue == Epilogue::gelu;
  shape.add = epilogue == Epilogue::add;
  // As device_memory promises.
  shape.x_alignment = shape.weight_alignment = shape.bias_alignment = shape.c_alignment =
      shape.y_alignment = linear::kMaxAlignment;
  const double read = static_cast<double>(kProductRows * in + in * out);
  const double written = static_cast<double>(kProductRows * out);
  return {"linear " + name,
          "rows 8 x 8161, " + std::to_string(in) + " to " + std::to_string(out),
          "bfloat16",
          sizeof(BFloat16) * (read + written * (shape.add ? 2 : 1)),
          2 * written * static_cast<double>(in),
          [=](Stream stream) -> Work {
            linear::CublasLtOptions options;
            options.stream = stream;
            options.allocate = device_memory;
            const std::shared_ptr<linear::Products> products =
                linear::make_cublas_lt_products(options);
            const auto some = [](std::int64_t count, unsigned seed) {
              return random_memory<BFloat16>(static_cast<std::size_t>(count), seed);
            };
            const auto x = some(kProductRows * in, 1);
            const auto weight = some(in * out, 2);
            const auto bias = some(out, 3);
            const auto c = shape.add ? some(kProductRows * out, 4) : DeviceMemory<BFloat16>();
            const DeviceMemory<BFloat16> y(static_cast<std::size_t>(kProductRows * out));
            const auto run = [=, product = products->plan(shape)](Stream) {
              products->run(product, x.data(), weight.data(), bias.data(), c.data(), y.data());
            };
            return {run, [=] { return is_finite(y); }};
          }};
}

}  // namespace

std::vector<Case> layer_cases() {
  constexpr std::int64_t kIn = sized(768, 64);
  return {layer_norm_case(), patchify_case(8), patchify_case(1),
          product_case("qkv", kIn, 3 * kIn, Epilogue::bias),
          product_case("proj + x", kIn, kIn, Epilogue::add),
          product_case("fc1, gelu", kIn, 4 * kIn, Epilogue::gelu),
          // How much of fc1 its GELU is: more than a tenth means that it is a kernel of its own.
          product_case("fc1", kIn, 4 * kIn, Epilogue::bias),
          product_case("fc2 + x", 4 * kIn, kIn, Epilogue::add)};
}

}  // namespace hydrascope::bench
