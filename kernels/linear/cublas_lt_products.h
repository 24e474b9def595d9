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
  device::Stream stream = nullptr;  ///< the stream of the products
  /// Takes the library's first choice that runs, which is the same in every run, instead of the
  /// fastest.
  bool deterministic = false;
  /// Gives memory of the device, which goes back with the pointer, from the caller's allocator.
  /// Throws if there is none; then nothing is measured.
  std::function<std::shared_ptr<void>(std::size_t bytes)> allocate;
};

/// Products for the current device. Throws Error(failed) that names the missing part of cuBLASLt.
std::unique_ptr<Products> make_cublas_lt_products(CublasLtOptions options);

}  // namespace hydrascope::kernels::linear::cuda
