#ifdef HYDRASCOPE_WITH_CUDA
#include "kernels/linear/cublas_lt_products.h"

#include "kernels/device/event.h"
#include "kernels/device/fastest_way.h"
#include "kernels/device/launch.h"
#include "kernels/error.h"
#include "kernels/linear/cublas_lt_product.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace hydrascope::kernels::linear::cuda {
namespace {

using device::check_cuda;

constexpr int kTimedRuns = 5;
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

/// The next multiple of `alignment` that, up to kMaxAlignment, no larger power of two divides.
std::byte* place(std::byte* from, std::int64_t alignment) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  const std::int64_t beyond = static_cast<std::int64_t>(address % kMaxAlignment);
  return from + (kMaxAlignment - beyond) + (alignment < kMaxAlignment ? alignment : 0);
}

/// Memory that measuring reads (x and c share a place as large as the larger one; weight and bias
/// follow) and memory that it writes. Every operand has the planned alignment and no better. The
/// memory lies beside the plan's own buffers while the plan is made, in two allocations. Fewer rows
/// would need less memory, but another algorithm may be the fastest for them. The second reading of
/// the place that x and c share comes from the cache, for every algorithm alike.
struct Scratch {
  Scratch(const ProductShape& s, const CublasLtOptions& options) {
    const auto bytes = [&](std::int64_t stride, std::int64_t columns, std::int64_t batch_stride) {
      const std::int64_t count = (s.batch - 1) * batch_stride + (s.rows - 1) * stride + columns;
      return count * size_of(s.type) + 2 * kMaxAlignment;  // room for `place`
    };
    const std::int64_t shared = std::max(bytes(s.x_stride, s.in, s.x_batch_stride),
                                         s.add ? bytes(s.c_stride, s.out, s.c_batch_stride) : 0);
    const std::int64_t weight_bytes = bytes(0, s.out * s.in, 0);
    read_bytes = static_cast<std::size_t>(shared + weight_bytes + bytes(0, s.out, 0));
    read = options.allocate(read_bytes);
    written =
        options.allocate(static_cast<std::size_t>(bytes(s.y_stride, s.out, s.y_batch_stride)));
    auto* first = static_cast<std::byte*>(read.get());
    x = place(first, s.x_alignment);
    if (s.add) c = place(first, s.c_alignment);
    weight = place(first + shared, s.weight_alignment);
    bias = place(first + shared + weight_bytes, s.bias_alignment);
    y = place(static_cast<std::byte*>(written.get()), s.y_alignment);
  }

  /// Fills the memory that is read with random numbers: zeros multiply faster.
  void fill(device::Stream stream) const {
    const std::size_t block = std::min(read_bytes, kRandomBytes);
    const std::vector<std::uint8_t> values = random_values(block);
    auto* memory = static_cast<std::byte*>(read.get());
    check_cuda(cudaMemcpyAsync(memory, values.data(), block, cudaMemcpyHostToDevice, stream),
               "cudaMemcpyAsync");
    for (std::size_t filled = block; filled < read_bytes; filled *= 2)
      check_cuda(cudaMemcpyAsync(memory + filled, memory, std::min(filled, read_bytes - filled),
                                 cudaMemcpyDeviceToDevice, stream),
                 "cudaMemcpyAsync");
    check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
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
    const auto known = numbers_.find(shape);
    if (known != numbers_.end()) return known->second;
    products_.push_back(planned(shape));
    return numbers_[shape] = static_cast<int>(products_.size()) - 1;
  }

  void run(int product, const void* x, const void* weight, const void* bias, const void* c,
           void* y) override {
    const Planned& planned = products_[static_cast<std::size_t>(product)];
    const ProductShape& s = planned.shape;
    if (!are_aligned(s, x, weight, bias, c, y))
      throw Error(ErrorCode::internal, "an operand is less aligned than its plan says", text_of(s));
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

  [[nodiscard]] std::vector<std::string> describe() const override {
    std::vector<std::string> lines;
    for (const Planned& each : products_)
      lines.push_back((each.one_by_one ? std::to_string(each.shape.batch) + " times " : "") +
                      each.product->text());
    return lines;
  }

 private:
  struct Planned {
    ProductShape shape;
    std::unique_ptr<CublasLtProduct> product;  ///< for one image, if one_by_one
    bool one_by_one = false;
  };

  Planned planned(const ProductShape& shape) {
    if (auto product = prepared(shape)) return {shape, std::move(product), false};
    // cuBLASLt does not promise a c that is the same for all images (stride 0).
    if (shape.batch > 1) {
      ProductShape one = every_matrix_of(shape);
      one.batch = 1;
      one.x_batch_stride = one.c_batch_stride = one.y_batch_stride = 0;
      if (auto product = prepared(one)) return {shape, std::move(product), true};
    }
    throw Error(ErrorCode::failed, "cuBLASLt has no algorithm that runs " + text_of(shape),
                "a matrix product");
  }

  /// Null if no algorithm is offered or none runs.
  std::unique_ptr<CublasLtProduct> prepared(const ProductShape& shape) {
    auto product = std::make_unique<CublasLtProduct>(library_, shape);
    const auto algorithms = product->algorithms(handle_.get());
    const int chosen = chosen_of(*product, algorithms);
    if (chosen < 0) return nullptr;
    product->choose(algorithms[static_cast<std::size_t>(chosen)]);
    return product;
  }

  /// The fastest algorithm that runs, or the first one that runs if every run must take the same;
  /// -1 if none runs. Measured at the product's own size; without memory for that the first one is
  /// taken untried.
  int chosen_of(CublasLtProduct& product, const std::vector<cublasLtMatmulAlgo_t>& algorithms) {
    if (algorithms.empty()) return -1;
    const ProductShape& s = product.shape();
    std::optional<Scratch> scratch;
    try {
      scratch.emplace(s, options_);
    } catch (const std::exception&) {
      // The caller has no memory beside the plan, so nothing is measured: the first offer is taken,
      // except for a shape that cuBLASLt does not promise. A choice that has to be the same in every
      // run must not depend on this run's memory.
      cudaGetLastError();
      if (options_.deterministic) throw;
      return s.batch > 1 && s.add && s.c_batch_stride == 0 ? -1 : 0;
    }
    scratch->fill(options_.stream);
    const auto runs = [&](int way) {
      product.choose(algorithms[static_cast<std::size_t>(way)]);
      return product.run(handle_.get(), scratch->x, scratch->weight, scratch->bias, scratch->c,
                         scratch->y, workspace_.get(), options_.stream) == CUBLAS_STATUS_SUCCESS;
    };
    const auto time = [&](int way) {
      bool all_run = true;
      const float taken = device::milliseconds_of(options_.stream, kTimedRuns, "a matrix product",
                                                  [&] { all_run = runs(way) && all_run; });
      return all_run ? taken : std::numeric_limits<float>::infinity();
    };
    const int chosen = device::fastest_way(static_cast<int>(algorithms.size()),
                                           options_.deterministic, runs, time);
    // Waits for the device before the memory goes back.
    check_cuda(cudaStreamSynchronize(options_.stream), "cudaStreamSynchronize");
    return chosen;
  }

  const CublasLtLibrary& library_;
  CublasLtOptions options_;
  Owned<cublasLtHandle_t> handle_;
  std::shared_ptr<void> workspace_;
  /// Products stay: each is a few descriptors and an algorithm (some kilobytes), a handful belongs
  /// to each size of batch or image so far, and a return to such a size is immediate.
  std::vector<Planned> products_;
  std::map<ProductShape, int> numbers_;
};

}  // namespace

std::unique_ptr<Products> make_cublas_lt_products(CublasLtOptions options) {
  return std::make_unique<CublasLtProducts>(std::move(options));
}

}  // namespace hydrascope::kernels::linear::cuda
#endif
