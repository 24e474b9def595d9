// Matrix products on GPUs, free of cuBLASLt's header: cublas_lt_products.h makes them. Test:
// tests/kernels/linear/products_cuda_test.cpp.
//
//   y = gelu?(x W^T + b) + c?
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace hydrascope::kernels::linear::cuda {

enum class ProductType {
  float32,
  tf32,  ///< float32 in memory, products rounded to 11 bits
  bfloat16,
  float16
};

/// The largest alignment, in bytes, that an algorithm asks for.
inline constexpr std::int64_t kMaxAlignment = 256;

/// The largest power of two that divides the address, kMaxAlignment at most.
inline std::int64_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | std::uintptr_t{kMaxAlignment};
  return static_cast<std::int64_t>(address & (~address + 1));
}

/// Rows of x, c and y lie `*_stride` elements apart, matrices of a batch `*_batch_stride`; all
/// matrices of a batch meet the same W and b. Sums are float32; one rounding when y is stored.
/// Tolerance, of the largest |y|: `in` times 2^-23 and a rounding; tf32 2^-8 more, GELU 2^-10.
struct ProductShape {
  ProductType type = ProductType::float32;
  std::int64_t rows = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t x_stride = 0;
  std::int64_t y_stride = 0;
  std::int64_t batch = 1;
  std::int64_t x_batch_stride = 0;
  std::int64_t y_batch_stride = 0;
  bool add = false;  ///< c is added; it may be y
  std::int64_t c_stride = 0;
  std::int64_t c_batch_stride = 0;  ///< 0: the same c for all
  /// GELU in its tanh form (Hendrycks and Gimpel 2016, arXiv 1606.08415, section 2), for 16-bit
  /// types and without `add`. It differs from the erf form by at most 5e-4.
  bool gelu = false;
  /// Alignments in bytes, powers of two up to kMaxAlignment, of the pointers given to `run` (in a
  /// batch: of the first matrix). Algorithms that need more are not taken: an operand may begin
  /// inside a buffer, after the prefix tokens of an image or the queries' part of a bias.
  std::int64_t x_alignment = 16;
  std::int64_t weight_alignment = 16;
  std::int64_t bias_alignment = 16;
  std::int64_t c_alignment = 16;
  std::int64_t y_alignment = 16;

  auto operator<=>(const ProductShape&) const = default;  ///< some order, for look-ups
};

/// Bytes of an element.
inline std::int64_t size_of(ProductType type) {
  return type == ProductType::bfloat16 || type == ProductType::float16 ? 2 : 4;
}

/// The shape with the alignments that every matrix of a batch has, not the first one alone.
inline ProductShape every_matrix_of(ProductShape s) {
  const auto lower = [&](std::int64_t& alignment, std::int64_t batch_stride) {
    const std::int64_t bytes = batch_stride * size_of(s.type);
    if (s.batch > 1 && bytes != 0) alignment = std::min(alignment, bytes & -bytes);
  };
  lower(s.x_alignment, s.x_batch_stride);
  lower(s.c_alignment, s.c_batch_stride);
  lower(s.y_alignment, s.y_batch_stride);
  return s;
}

/// Whether the pointers have the alignments of the shape.
inline bool are_aligned(const ProductShape& shape, const void* x, const void* weight,
                        const void* bias, const void* c, const void* y) {
  return alignment_of(x) >= shape.x_alignment && alignment_of(weight) >= shape.weight_alignment &&
         alignment_of(bias) >= shape.bias_alignment &&
         (!shape.add || alignment_of(c) >= shape.c_alignment) &&
         alignment_of(y) >= shape.y_alignment;
}

class Products {
 public:
  Products() = default;
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  virtual ~Products() = default;

  /// Prepares a product and returns its number; a repeated shape gets its earlier number. Finds the
  /// fastest algorithm by running it on memory of its own, so it waits for the device.
  virtual int plan(const ProductShape& shape) = 0;
  /// x (batch, rows, in), weight (out, in) contiguous, bias (out), c and y (batch, rows, out), all
  /// in the shape's type and alignment; c is null unless the shape adds. Returns at once.
  virtual void run(int product, const void* x, const void* weight, const void* bias, const void* c,
                   void* y) = 0;
  /// A line for each product with its chosen algorithm, so that runs can be compared.
  [[nodiscard]] virtual std::vector<std::string> describe() const = 0;
};

}  // namespace hydrascope::kernels::linear::cuda
