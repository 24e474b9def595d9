// One product of cuBLASLt: its descriptors and the algorithm it runs by.
#pragma once

#include "kernels/device/stream.h"
#include "kernels/linear/cublas_lt_library.h"
#include "kernels/linear/products.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace hydrascope::kernels::linear::cuda {

/// The size that NVIDIA advises for Hopper; older GPUs need 4 MiB.
inline constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

/// A descriptor of cuBLASLt and the function that ends it.
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>,
                              std::function<void(std::remove_pointer_t<Handle>*)>>;

/// cuBLASLt's matrices are column-major, so that y^T (out x rows) = W (in x out)^T x^T (in x rows).
class CublasLtProduct {
 public:
  CublasLtProduct(const CublasLtLibrary& library, const ProductShape& shape);

  [[nodiscard]] const ProductShape& shape() const { return shape_; }
  /// The algorithms that the library offers, its first choice first; none is possible.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> algorithms(cublasLtHandle_t handle);
  void choose(const cublasLtMatmulAlgo_t& algorithm) { algorithm_ = algorithm; }
  /// Runs the chosen algorithm; c is null unless the product adds.
  cublasStatus_t run(cublasLtHandle_t handle, const void* x, const void* weight, const void* bias,
                     const void* c, void* y, void* workspace, device::Stream stream);
  /// The shape and the chosen algorithm: "394 x 192 times 192 x 576 bfloat16, algorithm 66, tile
  /// 20, stages 35, split 1".
  [[nodiscard]] std::string text() const;

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t what, Value value);
  [[nodiscard]] Owned<cublasLtMatrixLayout_t> layout(std::int64_t rows, std::int64_t columns,
                                                     std::int64_t stride,
                                                     std::int64_t batch_stride) const;

  const CublasLtLibrary& library_;
  ProductShape shape_;
  Owned<cublasLtMatmulDesc_t> operation_;
  Owned<cublasLtMatrixLayout_t> weight_;
  Owned<cublasLtMatrixLayout_t> x_;
  Owned<cublasLtMatrixLayout_t> y_;
  Owned<cublasLtMatrixLayout_t> c_;
  cublasLtMatmulAlgo_t algorithm_{};
};

/// "3 x 196 x 768 times 768 x 192 bfloat16".
std::string text_of(const ProductShape& shape);

}  // namespace hydrascope::kernels::linear::cuda
