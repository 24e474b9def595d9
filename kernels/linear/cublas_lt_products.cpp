#ifdef HYDRASCOPE_WITH_CUDA
#include "kernels/linear/cublas_lt_products.h"

#include "kernels/device/launch.h"
#include "kernels/error.h"
#include "kernels/linear/cublas_lt_library.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace hydrascope::kernels::linear::cuda {
namespace {

using device::check_cuda;

/// What NVIDIA advises for Hopper; older GPUs need 4 MiB.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
constexpr int kMostAlgorithms = 16;
constexpr int kTimedRuns = 5;

/// A descriptor of cuBLASLt and the function that ends it.
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>,
                              std::function<void(std::remove_pointer_t<Handle>*)>>;

cudaDataType_t data_type(ProductType type) {
  switch (type) {
    case ProductType::bfloat16: return CUDA_R_16BF;
    case ProductType::float16: return CUDA_R_16F;
    default: return CUDA_R_32F;
  }
}

std::int64_t size_of(ProductType type) {
  return type == ProductType::bfloat16 || type == ProductType::float16 ? 2 : 4;
}

/// cuBLASLt's matrices are column-major, so that y^T (out x rows) = W (in x out)^T x^T (in x rows).
class Product {
 public:
  Product(const CublasLtLibrary& library, const ProductShape& shape)
      : library_(library), shape_(shape) {
    const cudaDataType_t type = data_type(shape.type);
    cublasLtMatmulDesc_t raw = nullptr;
    library.check(
        library.MatmulDescCreate(
            &raw,
            shape.type == ProductType::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
            CUDA_R_32F),
        "cublasLtMatmulDescCreate");
    operation_ = {raw, [&library](auto* each) { library.MatmulDescDestroy(each); }};
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE,
        shape.gelu ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
    weight_ = layout(type, shape.in, shape.out, shape.in, 0);
    x_ = layout(type, shape.in, shape.rows, shape.x_stride, shape.x_batch_stride);
    y_ = layout(type, shape.out, shape.rows, shape.y_stride, shape.y_batch_stride);
    c_ = shape.add ? layout(type, shape.out, shape.rows, shape.c_stride, shape.c_batch_stride)
                   : layout(type, shape.out, shape.rows, shape.y_stride, shape.y_batch_stride);
  }

  [[nodiscard]] const ProductShape& shape() const { return shape_; }

  /// What the library offers, its first choice first.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> algorithms(cublasLtHandle_t handle) const {
    cublasLtMatmulPreference_t raw = nullptr;
    library_.check(library_.MatmulPreferenceCreate(&raw), "cublasLtMatmulPreferenceCreate");
    const Owned<cublasLtMatmulPreference_t> preference{
        raw, [this](auto* each) { library_.MatmulPreferenceDestroy(each); }};
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      library_.check(library_.MatmulPreferenceSetAttribute(raw, what, &value, sizeof value),
                     "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    // Sums of a split product are added in a fixed order: never in place.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    std::array<cublasLtMatmulHeuristicResult_t, kMostAlgorithms> found{};
    int count = 0;
    library_.check(
        library_.MatmulAlgoGetHeuristic(handle, operation_.get(), weight_.get(), x_.get(), c_.get(),
                                        y_.get(), raw, kMostAlgorithms, found.data(), &count),
        "cublasLtMatmulAlgoGetHeuristic");
    std::vector<cublasLtMatmulAlgo_t> usable;
    for (int i = 0; i < count; ++i) {
      const auto& each = found[static_cast<std::size_t>(i)];
      if (each.state == CUBLAS_STATUS_SUCCESS) usable.push_back(each.algo);
    }
    if (usable.empty())
      throw Error(ErrorCode::failed,
                  "cuBLASLt has no algorithm for " + std::to_string(shape_.rows) + " x " +
                      std::to_string(shape_.in) + " times " + std::to_string(shape_.in) + " x " +
                      std::to_string(shape_.out),
                  "a matrix product");
    return usable;
  }

  void choose(const cublasLtMatmulAlgo_t& algorithm) { algorithm_ = algorithm; }

  cublasStatus_t run(cublasLtHandle_t handle, const void* x, const void* weight, const void* bias,
                     const void* c, void* y, void* workspace, device::Stream stream) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    const float one = 1;
    const float beta = shape_.add ? 1 : 0;
    return library_.Matmul(handle, operation_.get(), &one, weight, weight_.get(), x, x_.get(),
                           &beta, c != nullptr ? c : y, c_.get(), y, y_.get(), &algorithm_,
                           workspace, kWorkspaceBytes, stream);
  }

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t what, Value value) {
    library_.check(library_.MatmulDescSetAttribute(operation_.get(), what, &value, sizeof value),
                   "cublasLtMatmulDescSetAttribute");
  }

  Owned<cublasLtMatrixLayout_t> layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                                       std::int64_t stride, std::int64_t batch_stride) const {
    cublasLtMatrixLayout_t raw = nullptr;
    library_.check(library_.MatrixLayoutCreate(&raw, type, static_cast<std::uint64_t>(rows),
                                               static_cast<std::uint64_t>(columns), stride),
                   "cublasLtMatrixLayoutCreate");
    Owned<cublasLtMatrixLayout_t> owned{raw,
                                        [this](auto* each) { library_.MatrixLayoutDestroy(each); }};
    const auto batch = static_cast<std::int32_t>(shape_.batch);
    library_.check(library_.MatrixLayoutSetAttribute(raw, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                     &batch, sizeof batch),
                   "cublasLtMatrixLayoutSetAttribute");
    library_.check(
        library_.MatrixLayoutSetAttribute(raw, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                          &batch_stride, sizeof batch_stride),
        "cublasLtMatrixLayoutSetAttribute");
    return owned;
  }

  const CublasLtLibrary& library_;
  ProductShape shape_;
  Owned<cublasLtMatmulDesc_t> operation_;
  Owned<cublasLtMatrixLayout_t> weight_;
  Owned<cublasLtMatrixLayout_t> x_;
  Owned<cublasLtMatrixLayout_t> y_;
  Owned<cublasLtMatrixLayout_t> c_;
  cublasLtMatmulAlgo_t algorithm_{};
};

constexpr std::size_t kRandomBytes = std::size_t{1} << 20;

/// Numbers of either sign between 2^-7 and 2 in both 16-bit types and in float32.
std::vector<std::uint8_t> random_values(std::size_t count) {
  std::vector<std::uint8_t> values(count);
  std::uint32_t state = 12345;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    values[i] = static_cast<std::uint8_t>(state >> 24);
    if (i % 2 == 1) values[i] = static_cast<std::uint8_t>(0x3cU | (values[i] & 0x83U));
  }
  return values;
}

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  void record(device::Stream stream) {
    check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  float milliseconds_since(const Event& begin) {
    check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class CublasLtProducts final : public Products {
 public:
  explicit CublasLtProducts(CublasLtOptions options)
      : library_(CublasLtLibrary::get()), options_(std::move(options)) {
    cublasLtHandle_t raw = nullptr;
    library_.check(library_.Create(&raw), "cublasLtCreate");
    handle_ = {raw, [this](auto* each) { library_.Destroy(each); }};
    workspace_ = options_.allocate(kWorkspaceBytes);
  }

  int plan(const ProductShape& shape) override {
    for (std::size_t i = 0; i < products_.size(); ++i) {
      if (same(products_[i]->shape(), shape)) return static_cast<int>(i);
    }
    auto product = std::make_unique<Product>(library_, shape);
    const auto algorithms = product->algorithms(handle_.get());
    product->choose(options_.deterministic || algorithms.size() == 1
                        ? algorithms.front()
                        : fastest(*product, algorithms));
    products_.push_back(std::move(product));
    return static_cast<int>(products_.size()) - 1;
  }

  void run(int product, const void* x, const void* weight, const void* bias, const void* c,
           void* y) override {
    library_.check(products_[static_cast<std::size_t>(product)]->run(
                       handle_.get(), x, weight, bias, c, y, workspace_.get(), options_.stream),
                   "cublasLtMatmul");
  }

 private:
  static bool same(const ProductShape& a, const ProductShape& b) {
    const auto fields = [](const ProductShape& s) {
      return std::tuple(s.type, s.rows, s.in, s.out, s.x_stride, s.y_stride, s.batch,
                        s.x_batch_stride, s.y_batch_stride, s.add, s.c_stride, s.c_batch_stride,
                        s.gelu);
    };
    return fields(a) == fields(b);
  }

  /// Measured on random numbers of the size at hand: zeros multiply faster than numbers.
  cublasLtMatmulAlgo_t fastest(Product& product,
                               const std::vector<cublasLtMatmulAlgo_t>& algorithms) {
    const ProductShape& s = product.shape();
    const auto bytes = [&](std::int64_t rows, std::int64_t columns, std::int64_t stride,
                           std::int64_t batch_stride) {
      return static_cast<std::size_t>(
          ((s.batch - 1) * batch_stride + (rows - 1) * stride + columns) * size_of(s.type));
    };
    const auto random = [&](std::size_t count) {
      std::shared_ptr<void> memory = options_.allocate(count);
      const std::size_t block = std::min(count, kRandomBytes);
      const std::vector<std::uint8_t> values = random_values(block);
      check_cuda(cudaMemcpyAsync(memory.get(), values.data(), block, cudaMemcpyHostToDevice,
                                 options_.stream),
                 "cudaMemcpyAsync");
      for (std::size_t filled = block; filled < count; filled *= 2)
        check_cuda(cudaMemcpyAsync(static_cast<std::byte*>(memory.get()) + filled, memory.get(),
                                   std::min(filled, count - filled), cudaMemcpyDeviceToDevice,
                                   options_.stream),
                   "cudaMemcpyAsync");
      check_cuda(cudaStreamSynchronize(options_.stream), "cudaStreamSynchronize");
      return memory;
    };
    const auto x = random(bytes(s.rows, s.in, s.x_stride, s.x_batch_stride));
    const auto weight = random(bytes(s.out, s.in, s.in, 0));
    const auto bias = random(static_cast<std::size_t>(s.out * size_of(s.type)));
    const auto y = options_.allocate(bytes(s.rows, s.out, s.y_stride, s.y_batch_stride));
    std::shared_ptr<void> c;
    if (s.add) c = random(bytes(s.rows, s.out, s.c_stride, s.c_batch_stride));
    const auto once = [&] {
      return product.run(handle_.get(), x.get(), weight.get(), bias.get(), c.get(), y.get(),
                         workspace_.get(), options_.stream);
    };
    Event begin;
    Event end;
    float best_time = 0;
    const cublasLtMatmulAlgo_t* best = nullptr;
    for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
      product.choose(algorithm);
      if (once() != CUBLAS_STATUS_SUCCESS) continue;  // warm, and refuses what it cannot do
      begin.record(options_.stream);
      for (int i = 0; i < kTimedRuns; ++i) library_.check(once(), "cublasLtMatmul");
      end.record(options_.stream);
      const float time = end.milliseconds_since(begin);
      if (best == nullptr || time < best_time) {
        best_time = time;
        best = &algorithm;
      }
    }
    if (best == nullptr)
      throw Error(ErrorCode::failed, "none of cuBLASLt's algorithms runs", "a matrix product");
    return *best;
  }

  const CublasLtLibrary& library_;
  CublasLtOptions options_;
  Owned<cublasLtHandle_t> handle_;
  std::shared_ptr<void> workspace_;
  std::vector<std::unique_ptr<Product>> products_;
};

}  // namespace

std::unique_ptr<Products> make_cublas_lt_products(CublasLtOptions options) {
  return std::make_unique<CublasLtProducts>(std::move(options));
}

}  // namespace hydrascope::kernels::linear::cuda
#endif
