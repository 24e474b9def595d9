// Products by cuBLASLt: descriptors made once, the algorithm chosen by measuring, bias, GELU and
// sums fused into the product's epilogue. cuBLASLt is loaded when it is first needed, so that
// programs start without it.
#pragma once

#include "kernels/device/stream.h"
#include "kernels/linear/products.h"

#include <cstddef>
#include <functional>
#include <memory>

namespace hydrascope::kernels::linear::cuda {

struct CublasLtOptions {
  device::Stream stream = nullptr;  ///< where `run` puts the products
  /// Takes the library's first choice that runs, which is the same every time, instead of the
  /// fastest.
  bool deterministic = false;
  /// Memory of the device and its end; from the caller's allocator. Throws where there is none;
  /// measuring then makes do without.
  std::function<std::shared_ptr<void>(std::size_t bytes)> allocate;
};

/// For the current device. Error(failed) that says what is missing where cuBLASLt does not load.
std::unique_ptr<Products> make_cublas_lt_products(CublasLtOptions options);

}  // namespace hydrascope::kernels::linear::cuda
