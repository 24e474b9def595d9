#ifdef HYDRASCOPE_WITH_CUDA
#include "kernels/linear/cublas_lt_products.h"

#include "kernels/device/event.h"
#include "kernels/device/launch.h"
#include "kernels/error.h"
#include "kernels/linear/cublas_lt_library.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hydrascope::kernels::linear::cuda {
namespace {

using device::check_cuda;

/// What NVIDIA advises for Hopper; older GPUs need 4 MiB.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
constexpr int kMaxAlgorithms = 16;
constexpr int kTimedRuns = 5;
/// Those that are nearly the fastest are timed again, in turns: what clocks do meanwhile they share.
constexpr std::size_t kMaxFinalists = 3;
constexpr float kFinalistsWithin = 1.3F;
constexpr int kFinalRounds = 4;

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

/// What every matrix of the batch is aligned to, `alignment` being the first one's.
std::int64_t of_all(const ProductShape& shape, std::int64_t alignment, std::int64_t batch_stride) {
  if (shape.batch <= 1 || batch_stride == 0) return alignment;
  const std::int64_t bytes = batch_stride * size_of(shape.type);
  return std::min(alignment, bytes & -bytes);
}

/// One image of the batch; every image's alignment.
ProductShape one_of(ProductShape shape) {
  shape.x_alignment = of_all(shape, shape.x_alignment, shape.x_batch_stride);
  shape.c_alignment = of_all(shape, shape.c_alignment, shape.c_batch_stride);
  shape.y_alignment = of_all(shape, shape.y_alignment, shape.y_batch_stride);
  shape.batch = 1;
  shape.x_batch_stride = shape.c_batch_stride = shape.y_batch_stride = 0;
  return shape;
}

std::string text(const ProductShape& s) {
  return std::to_string(s.batch) + " x " + std::to_string(s.rows) + " x " + std::to_string(s.in) +
         " times " + std::to_string(s.in) + " x " + std::to_string(s.out);
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

  /// What the library offers, its first choice first; nothing where it has none.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> algorithms(cublasLtHandle_t handle) {
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
    // Unless told, the library supposes 256 bytes.
    const auto prefer_alignment = [&](cublasLtMatmulPreferenceAttributes_t what,
                                      std::int64_t alignment, std::int64_t batch_stride) {
      prefer(what, static_cast<std::uint32_t>(of_all(shape_, alignment, batch_stride)));
    };
    const ProductShape& s = shape_;
    prefer_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s.weight_alignment, 0);
    prefer_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s.x_alignment, s.x_batch_stride);
    // Without a c, y stands in for it (`run`).
    prefer_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                     s.add ? s.c_alignment : s.y_alignment,
                     s.add ? s.c_batch_stride : s.y_batch_stride);
    prefer_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s.y_alignment, s.y_batch_stride);
    // The bias has no such preference: its pointer is looked at. This one is as aligned as the
    // bias will be, and never read.
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        static_cast<std::uintptr_t>((std::int64_t{1} << 20) + s.bias_alignment));
    std::array<cublasLtMatmulHeuristicResult_t, kMaxAlgorithms> found{};
    int count = 0;
    const cublasStatus_t status =
        library_.MatmulAlgoGetHeuristic(handle, operation_.get(), weight_.get(), x_.get(), c_.get(),
                                        y_.get(), raw, kMaxAlgorithms, found.data(), &count);
    // Two ways to say that there is none.
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
    library_.check(status, "cublasLtMatmulAlgoGetHeuristic");
    std::vector<cublasLtMatmulAlgo_t> usable;
    for (int i = 0; i < count; ++i) {
      const auto& each = found[static_cast<std::size_t>(i)];
      if (each.state == CUBLAS_STATUS_SUCCESS) usable.push_back(each.algo);
    }
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
    const auto [entry, is_new] = numbers_.try_emplace(shape, 0);
    if (!is_new) return entry->second;
    try {
      products_.push_back(planned(shape));
    } catch (...) {
      numbers_.erase(entry);
      throw;
    }
    entry->second = static_cast<int>(products_.size()) - 1;
    return entry->second;
  }

  void run(int product, const void* x, const void* weight, const void* bias, const void* c,
           void* y) override {
    const Planned& planned = products_[static_cast<std::size_t>(product)];
    const ProductShape& s = planned.shape;
    if (!are_aligned(s, x, weight, bias, c, y))
      throw Error(ErrorCode::internal, "an operand is less aligned than its plan says", text(s));
    const std::int64_t calls = planned.one_by_one ? s.batch : 1;
    for (std::int64_t i = 0; i < calls; ++i) {
      const auto image = [&](auto* first, std::int64_t batch_stride) {
        using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(first)>>,
                                        const std::byte, std::byte>;
        return static_cast<Byte*>(first) + i * batch_stride * size_of(s.type);
      };
      library_.check(
          planned.product->run(handle_.get(), image(x, s.x_batch_stride), weight, bias,
                               s.add ? image(c, s.c_batch_stride) : nullptr,
                               image(y, s.y_batch_stride), workspace_.get(), options_.stream),
          "cublasLtMatmul");
    }
  }

 private:
  struct Planned {
    ProductShape shape;
    std::unique_ptr<Product> product;  ///< of one image, if one_by_one
    bool one_by_one = false;
  };

  Planned planned(const ProductShape& shape) {
    if (auto product = prepared(shape)) return {shape, std::move(product), false};
    // A c that is the same for all images (stride 0) is not among what cuBLASLt promises.
    if (shape.batch > 1) {
      if (auto product = prepared(one_of(shape))) return {shape, std::move(product), true};
    }
    throw Error(ErrorCode::failed, "cuBLASLt has no algorithm that runs " + text(shape),
                "a matrix product");
  }

  /// Null where no algorithm is offered or none runs.
  std::unique_ptr<Product> prepared(const ProductShape& shape) {
    auto product = std::make_unique<Product>(library_, shape);
    const auto algorithms = product->algorithms(handle_.get());
    const auto chosen = chosen_of(*product, algorithms);
    if (!chosen) return nullptr;
    product->choose(*chosen);
    return product;
  }

  /// Memory that measuring reads (x and c in the same place: the largest of them once; then weight
  /// and bias) and memory that it writes, each operand aligned as planned and no better. It lies
  /// beside the plan's own buffers while the plan is made: two allocations, not one an operand.
  /// Fewer rows would need less, but then another algorithm may be the fastest. What x and c share
  /// is read from the cache the second time, by every algorithm alike.
  struct Scratch {
    Scratch(const ProductShape& s,
            const std::function<std::shared_ptr<void>(std::size_t bytes)>& allocate) {
      const auto bytes = [&](std::int64_t stride, std::int64_t columns, std::int64_t batch_stride) {
        const std::int64_t count = (s.batch - 1) * batch_stride + (s.rows - 1) * stride + columns;
        return count * size_of(s.type) + 2 * kMaxAlignment;  // what `place` may need
      };
      const std::int64_t x_bytes = bytes(s.x_stride, s.in, s.x_batch_stride);
      const std::int64_t c_bytes = s.add ? bytes(s.c_stride, s.out, s.c_batch_stride) : 0;
      const std::int64_t shared = std::max(x_bytes, c_bytes);
      const std::int64_t weight_bytes = s.out * s.in * size_of(s.type) + 2 * kMaxAlignment;
      const std::int64_t bias_bytes = s.out * size_of(s.type) + 2 * kMaxAlignment;
      read_bytes = static_cast<std::size_t>(shared + weight_bytes + bias_bytes);
      read = allocate(read_bytes);
      written = allocate(static_cast<std::size_t>(bytes(s.y_stride, s.out, s.y_batch_stride)));
      auto* first = static_cast<std::byte*>(read.get());
      x = place(first, s.x_alignment);
      if (s.add) c = place(first, s.c_alignment);
      weight = place(first + shared, s.weight_alignment);
      bias = place(first + shared + weight_bytes, s.bias_alignment);
      y = place(static_cast<std::byte*>(written.get()), s.y_alignment);
    }

    /// A near address that is a multiple of `alignment` and, up to kMaxAlignment, of no more.
    static std::byte* place(std::byte* from, std::int64_t alignment) {
      const auto address = reinterpret_cast<std::uintptr_t>(from);
      const std::int64_t beyond = static_cast<std::int64_t>(address % kMaxAlignment);
      return from + (kMaxAlignment - beyond) + (alignment < kMaxAlignment ? alignment : 0);
    }

    std::shared_ptr<void> read;
    std::size_t read_bytes = 0;
    std::shared_ptr<void> written;
    std::byte* x = nullptr;
    std::byte* c = nullptr;
    std::byte* weight = nullptr;
    std::byte* bias = nullptr;
    std::byte* y = nullptr;
  };

  void fill_at_random(const Scratch& scratch) {
    const std::size_t count = scratch.read_bytes;
    const std::size_t block = std::min(count, kRandomBytes);
    const std::vector<std::uint8_t> values = random_values(block);
    auto* memory = static_cast<std::byte*>(scratch.read.get());
    check_cuda(
        cudaMemcpyAsync(memory, values.data(), block, cudaMemcpyHostToDevice, options_.stream),
        "cudaMemcpyAsync");
    for (std::size_t filled = block; filled < count; filled *= 2)
      check_cuda(cudaMemcpyAsync(memory + filled, memory, std::min(filled, count - filled),
                                 cudaMemcpyDeviceToDevice, options_.stream),
                 "cudaMemcpyAsync");
    check_cuda(cudaStreamSynchronize(options_.stream), "cudaStreamSynchronize");
  }

  /// The fastest, or the first if it has to be the same in every run, of those that run; none where
  /// none runs. Measured on random numbers of the size at hand: zeros multiply faster than numbers.
  std::optional<cublasLtMatmulAlgo_t> chosen_of(
      Product& product, const std::vector<cublasLtMatmulAlgo_t>& algorithms) {
    if (algorithms.empty()) return std::nullopt;
    std::optional<Scratch> scratch;
    try {
      scratch.emplace(product.shape(), options_.allocate);
    } catch (const std::exception&) {
      // Out of memory in the caller's own words: what does not fit beside the plan is not measured.
      cudaGetLastError();
      const ProductShape& s = product.shape();
      if (s.batch > 1 && s.add && s.c_batch_stride == 0) return std::nullopt;  // on no mere offer
      return algorithms.front();
    }
    fill_at_random(*scratch);
    const auto once = [&] {
      return product.run(handle_.get(), scratch->x, scratch->weight, scratch->bias, scratch->c,
                         scratch->y, workspace_.get(), options_.stream);
    };
    device::Event begin(device::Event::Timing::on);
    device::Event end(device::Event::Timing::on);
    const auto time_of = [&](const cublasLtMatmulAlgo_t& algorithm) {
      product.choose(algorithm);
      begin.record(options_.stream);
      for (int i = 0; i < kTimedRuns; ++i) library_.check(once(), "cublasLtMatmul");
      end.record(options_.stream);
      end.wait("cudaEventSynchronize");
      return end.milliseconds_since(begin);
    };
    std::vector<std::pair<float, cublasLtMatmulAlgo_t>> timed;
    for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
      product.choose(algorithm);
      if (once() != CUBLAS_STATUS_SUCCESS) continue;  // warm, and refuses what it cannot do
      timed.emplace_back(options_.deterministic ? 0.F : time_of(algorithm), algorithm);
      if (options_.deterministic) break;
    }
    std::ranges::stable_sort(timed, {}, &decltype(timed)::value_type::first);
    std::size_t finalists = 0;
    while (finalists < std::min(timed.size(), kMaxFinalists) &&
           timed[finalists].first <= kFinalistsWithin * timed.front().first)
      ++finalists;
    timed.resize(finalists);
    if (finalists > 1) {
      for (auto& [time, algorithm] : timed) time = 0;
      for (int round = 0; round < kFinalRounds; ++round) {
        for (auto& [time, algorithm] : timed) time += time_of(algorithm);
      }
    }
    // Before the memory goes back.
    check_cuda(cudaStreamSynchronize(options_.stream), "cudaStreamSynchronize");
    if (timed.empty()) return std::nullopt;
    return std::ranges::min_element(timed, {}, &decltype(timed)::value_type::first)->second;
  }

  const CublasLtLibrary& library_;
  CublasLtOptions options_;
  Owned<cublasLtHandle_t> handle_;
  std::shared_ptr<void> workspace_;
  /// Products stay: a few descriptors and an algorithm each (some kilobytes), a handful for each
  /// size of batch or image that was asked for, and the way back to it is then at once.
  std::vector<Planned> products_;
  std::map<ProductShape, int> numbers_;
};

}  // namespace

std::unique_ptr<Products> make_cublas_lt_products(CublasLtOptions options) {
  return std::make_unique<CublasLtProducts>(std::move(options));
}

}  // namespace hydrascope::kernels::linear::cuda
#endif
