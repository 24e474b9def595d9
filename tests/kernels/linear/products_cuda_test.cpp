// Products by cuBLASLt, or by its stand-in (tests/stand_in), against plain loops.
#include "kernels/device/graph.h"
#include "kernels/error.h"
#include "kernels/linear/cublas_lt_products.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/fills.h"
#include "tests/kernels/linear/host_product.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace hydrascope::kernels::test {
namespace products_cuda_test {

using linear::cuda::alignment_of;
using linear::cuda::Products;
using linear::cuda::ProductShape;
using linear::cuda::ProductType;

std::shared_ptr<void> device_memory(std::size_t bytes) {
  return {take_device_memory(bytes), return_device_memory};
}

/// A shape, and how many elements into their buffers its operands begin.
struct ProductCase {
  std::string what;
  ProductShape shape;
  std::int64_t x_offset = 0;
  std::int64_t weight_offset = 0;
  std::int64_t bias_offset = 0;
  std::int64_t c_offset = 0;
  std::int64_t y_offset = 0;
  bool in_place = false;  ///< c is y
};

ProductCase rows_of(std::int64_t rows, std::int64_t in, std::int64_t out) {
  ProductCase result;
  result.what = std::to_string(rows) + " x " + std::to_string(in) + " to " + std::to_string(out);
  result.shape.rows = rows;
  result.shape.in = result.shape.x_stride = in;
  result.shape.out = result.shape.y_stride = out;
  return result;
}

ProductCase adding(ProductCase base, bool in_place) {
  base.what += in_place ? ", y added in place" : ", c added";
  base.shape.add = true;
  base.shape.c_stride = base.shape.y_stride;
  base.shape.c_batch_stride = base.shape.y_batch_stride;
  base.in_place = in_place;
  return base;
}

ProductCase with_gelu(ProductCase base) {
  base.what += ", gelu";
  base.shape.gelu = true;
  return base;
}

/// The first `rows` of every `tokens` rows.
ProductCase batch_of(std::int64_t batch, std::int64_t tokens, ProductCase base) {
  base.what = std::to_string(batch) + " of " + base.what;
  base.shape.batch = batch;
  base.shape.x_batch_stride = tokens * base.shape.x_stride;
  base.shape.y_batch_stride = tokens * base.shape.y_stride;
  return base;
}

/// The patch embedding: behind `prefix` tokens of every image, the same positions for all.
ProductCase embedding(std::int64_t batch, std::int64_t patches, std::int64_t prefix,
                      std::int64_t in, std::int64_t out) {
  ProductCase result = adding(rows_of(patches, in, out), false);
  result.what = std::to_string(batch) + " of " + result.what + " for all";
  result.shape.batch = batch;
  result.shape.x_batch_stride = patches * in;
  result.shape.y_batch_stride = (prefix + patches) * out;
  result.shape.c_batch_stride = 0;
  result.y_offset = prefix * out;
  return result;
}

/// The keys' and values' part of a qkv layer, behind the queries' part.
ProductCase part_behind(std::int64_t query_width, ProductCase base) {
  base.what += ", behind " + std::to_string(query_width);
  base.weight_offset = query_width * base.shape.in;
  base.bias_offset = query_width;
  return base;
}

#ifdef HYDRASCOPE_STAND_IN
constexpr std::int64_t kTokens = 9;  // its plain loops take their time
#else
constexpr std::int64_t kTokens = 197;
#endif

std::vector<ProductCase> cases() {
  ProductCase gaps = batch_of(3, 7, rows_of(5, 64, 40));
  gaps.what += ", gaps between rows";
  gaps.shape.x_stride = 72;
  gaps.shape.y_stride = 56;
  gaps.shape.x_batch_stride = 7 * 72;
  gaps.shape.y_batch_stride = 7 * 56;
  return {
      rows_of(2 * kTokens, 192, 576),
      rows_of(1, 768, 768),
      rows_of(3, 768, 1000),
      rows_of(5, 192, 11),  // rows of y are aligned to an element
      rows_of(7, 75, 33),   // and those of x and W
      with_gelu(rows_of(2 * kTokens, 192, 768)),
      with_gelu(batch_of(2, 5, rows_of(1, 192, 768))),
      adding(rows_of(2 * kTokens, 768, 192), true),
      adding(rows_of(2 * kTokens, 768, 192), false),
      adding(rows_of(4, 192, 1000), true),
      batch_of(3, kTokens, rows_of(1, 192, 192)),
      gaps,
      adding(gaps, true),
      adding(gaps, false),
      embedding(3, kTokens - 1, 1, 768, 192),  // DeiT-Ti: 384 bytes in, of 16-bit types
      embedding(2, kTokens - 1, 2, 768, 192),
      embedding(2, kTokens / 4, 1, 3072, 384),
      embedding(3, 9, 1, 27, 20),
      embedding(3, 9, 0, 64, 64),
      part_behind(60, rows_of(50, 192, 384)),  // 20 a head
      part_behind(20, rows_of(50, 40, 60)),
      part_behind(1, rows_of(50, 35, 70)),
  };
}

/// Relative to the largest |y|. Sums: in float32, each of `in` additions wrong by 2^-24 of a
/// partial sum, which is no larger than the largest |y| but for a small factor (twice; tensor cores
/// cut where others round, but once for several products). Rounding to T: once here, once in the
/// twin. tf32: each factor is cut to 11 bits, which errs by at most 2^-10, hence a product by 2^-9;
/// what has one sign scales y, the rest grows as the root of `in` while the largest |y| is several
/// times that root: 2^-8. GELU: the approximate tanh of GPUs errs by 2^-10.99 (PTX ISA,
/// tanh.approx), of |y|.
template <class T>
double tolerance(const ProductShape& shape) {
  double relative = 2 * std::ldexp(static_cast<double>(shape.in), -24) + rounding<T>();
  if (shape.type == ProductType::tf32) relative += std::ldexp(1.0, -8);
  if (shape.gelu) relative += std::ldexp(1.0, -10);
  return relative;
}

/// Rows of a batch, here and on the device. Gaps are NaN.
template <class T>
struct Operand {
  std::int64_t offset;  ///< elements before the first row
  std::vector<T> host;
  DeviceArray<T> device;

  /// Normal numbers, or with `scale` 0 NaN.
  Operand(std::int64_t offset_, std::int64_t batch, std::int64_t batch_stride, std::int64_t rows,
          std::int64_t stride, std::int64_t columns, unsigned seed, float scale = 1)
      : offset(offset_),
        host(static_cast<std::size_t>(offset + (batch - 1) * batch_stride + (rows - 1) * stride +
                                      columns),
             T(std::nanf(""))),
        device(host.size()) {
    std::vector<float> normal(static_cast<std::size_t>(batch * rows * columns));
    fill(normal, Fill::normal, seed);
    auto next = normal.begin();
    for (std::int64_t image = 0; image < batch && scale != 0; ++image)
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t column = 0; column < columns; ++column)
          host[static_cast<std::size_t>(offset + image * batch_stride + row * stride + column)] =
              T(scale * *next++);
    upload();
  }
  void upload() {
    if (!host.empty()) copy_memory(device.data(), host.data(), host.size() * sizeof(T));
  }
  [[nodiscard]] const T* here() const { return host.data() + offset; }
  T* there() { return device.data() + offset; }
};

/// The operands of a case.
template <class T>
struct Operands {
  explicit Operands(const ProductCase& each)
      : shape(each.shape),
        in_place(each.in_place),
        x(each.x_offset, shape.batch, shape.x_batch_stride, shape.rows, shape.x_stride, shape.in,
          1),
        weight(each.weight_offset, 1, 0, shape.out, shape.in, shape.in, 2,
               1 / std::sqrt(static_cast<float>(shape.in))),
        bias(each.bias_offset, 1, 0, 1, 0, shape.out, 3),
        c(each.c_offset, shape.c_batch_stride == 0 ? 1 : shape.batch, shape.c_batch_stride,
          shape.rows, shape.c_stride, shape.out, 4),
        y(each.y_offset, shape.batch, shape.y_batch_stride, shape.rows, shape.y_stride, shape.out,
          5, in_place ? 1.0F : 0.0F) {
    shape.x_alignment = alignment_of(x.there());
    shape.weight_alignment = alignment_of(weight.there());
    shape.bias_alignment = alignment_of(bias.there());
    shape.y_alignment = alignment_of(y.there());
    shape.c_alignment = in_place ? shape.y_alignment : alignment_of(c.there());
  }

  void run(Products& products, int product) {
    const T* added = in_place ? y.there() : c.there();
    products.run(product, x.there(), weight.there(), bias.there(), shape.add ? added : nullptr,
                 y.there());
  }

  void expect_equal_to_the_twin(const std::string& what) {
    const std::vector<T> found = y.device.download();
    std::vector<T> wanted = y.host;  // after one product, gaps and all
    T* to = wanted.data() + y.offset;
    const T* added = in_place ? to : c.here();
    host_product<T>(shape, x.here(), weight.here(), bias.here(), shape.add ? added : nullptr, to);
    std::vector<T> values;
    std::vector<double> twin;
    std::size_t touched = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto each = static_cast<float>(wanted[i]);
      if (std::isnan(each)) {
        touched += std::isnan(static_cast<float>(found[i])) ? 0 : 1;
      } else {
        values.push_back(found[i]);
        twin.push_back(static_cast<double>(each));
      }
    }
    EXPECT_EQ(touched, 0U) << what << ": gaps of y were written";
    EXPECT_TRUE(y.device.intact()) << what;
    EXPECT_EQ(twin.size(), static_cast<std::size_t>(shape.batch * shape.rows * shape.out)) << what;
    expect_close(values.data(), twin, tolerance<T>(shape), 0, static_cast<std::size_t>(shape.out),
                 what);
  }

  ProductShape shape;
  bool in_place;
  Operand<T> x, weight, bias, c, y;
};

/// Calls body.operator()<T>() for the type that the products are in.
template <class Body>
void with_type(ProductType type, Body&& body) {
  switch (type) {
    case ProductType::bfloat16: body.template operator()<BFloat16>(); break;
    case ProductType::float16: body.template operator()<Float16>(); break;
    default: body.template operator()<float>();
  }
}

std::string name_of(ProductType type) {
  switch (type) {
    case ProductType::float32: return "float32";
    case ProductType::tf32: return "tf32";
    case ProductType::bfloat16: return "bfloat16";
    case ProductType::float16: return "float16";
  }
  return {};
}

class CublasLt : public ::testing::TestWithParam<ProductType> {
 protected:
  void SetUp() override {
    HYDRASCOPE_SKIP_WITHOUT_DEVICE();
    device::check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                       "cudaStreamCreateWithFlags");
  }
  void TearDown() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  std::unique_ptr<Products> make(
      bool deterministic = false,
      std::function<std::shared_ptr<void>(std::size_t)> allocate = device_memory) {
    linear::cuda::CublasLtOptions options;
    options.stream = stream_;
    options.deterministic = deterministic;
    options.allocate = std::move(allocate);
    return linear::cuda::make_cublas_lt_products(std::move(options));
  }
  void wait() { device::check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

  /// Every case once.
  void expect_all_equal(Products& products) {
    for (ProductCase each : cases()) {
      SCOPED_TRACE(each.what);
      each.shape.type = GetParam();
      const std::int64_t size = linear::cuda::size_of(GetParam());
      if (each.shape.gelu && size == 4) continue;  // nobody asks
      // Nor for rows of 16-bit types that begin between two words.
      if (size == 2 &&
          (each.shape.in % 2 != 0 || each.shape.out % 2 != 0 || each.y_offset % 2 != 0))
        continue;
      try {
        with_type(GetParam(), [&]<class T>() {
          Operands<T> operands(each);
          operands.run(products, products.plan(operands.shape));
          wait();
          operands.expect_equal_to_the_twin(each.what);
        });
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();  // and what becomes of the others
      }
    }
  }

  cudaStream_t stream_ = nullptr;
};

TEST_P(CublasLt, EqualsPlainLoops) { expect_all_equal(*make()); }

TEST_P(CublasLt, EqualsPlainLoopsWithTheFirstChoice) { expect_all_equal(*make(true)); }

TEST_P(CublasLt, NeedsNoMemoryToMeasureIn) {
  int allocations = 0;
  const auto products = make(false, [&](std::size_t bytes) {
    if (++allocations > 1) throw std::bad_alloc();  // the first is the workspace
    return device_memory(bytes);
  });
  expect_all_equal(*products);
  EXPECT_GT(allocations, 1);
}

TEST_P(CublasLt, IsTheSameFromOneInstanceToTheNextIfDeterministic) {
  for (ProductCase each : {rows_of(2 * kTokens, 768, 192), rows_of(2, 3072, 768),
                           rows_of(3, 768, 1000), embedding(2, kTokens - 1, 1, 768, 192)}) {
    SCOPED_TRACE(each.what);
    each.shape.type = GetParam();
    with_type(GetParam(), [&]<class T>() {
      std::vector<std::vector<T>> results;
      for (int i = 0; i < 3; ++i) {
        const auto products = make(true);
        Operands<T> operands(each);
        operands.run(*products, products->plan(operands.shape));
        wait();
        results.push_back(operands.y.device.download());
      }
      const std::size_t bytes = results[0].size() * sizeof(T);
      EXPECT_EQ(std::memcmp(results[0].data(), results[1].data(), bytes), 0);
      EXPECT_EQ(std::memcmp(results[0].data(), results[2].data(), bytes), 0);
    });
  }
}

TEST_P(CublasLt, ReplaysFromAGraph) {
  const auto products = make();
  for (ProductCase each : {with_gelu(rows_of(50, 192, 768)), adding(rows_of(50, 768, 192), false),
                           embedding(3, kTokens - 1, 1, 768, 192)}) {
    SCOPED_TRACE(each.what);
    each.shape.type = GetParam();
    if (each.shape.gelu && linear::cuda::size_of(GetParam()) == 4) continue;
    with_type(GetParam(), [&]<class T>() {
      Operands<T> operands(each);
      const int product = products->plan(operands.shape);
      const device::Graph graph(stream_, [&] { operands.run(*products, product); });
      for (int i = 0; i < 2; ++i) {
        operands.y.upload();
        graph.launch();
        wait();
        operands.expect_equal_to_the_twin(each.what + ", replayed");
      }
    });
  }
}

TEST_P(CublasLt, KnowsWhatItHasPlanned) {
  const auto products = make(true);
  ProductShape shape = rows_of(10, 64, 64).shape;
  shape.type = GetParam();
  const int first = products->plan(shape);
  EXPECT_EQ(products->plan(shape), first);
  ProductShape other = shape;
  other.bias_alignment = 8;
  EXPECT_NE(products->plan(other), first);
  EXPECT_EQ(products->plan(shape), first);
}

TEST_P(CublasLt, RefusesOperandsLessAlignedThanPlanned) {
  const auto products = make(true);
  ProductCase each = rows_of(10, 64, 64);
  each.shape.type = GetParam();
  each.y_offset = 1;
  with_type(GetParam(), [&]<class T>() {
    Operands<T> operands(each);
    operands.shape.y_alignment = 16;
    const int product = products->plan(operands.shape);
    EXPECT_THROW(operands.run(*products, product), Error);
  });
}

INSTANTIATE_TEST_SUITE_P(Types, CublasLt,
                         ::testing::Values(ProductType::float32, ProductType::tf32,
                                           ProductType::bfloat16, ProductType::float16),
                         [](const auto& each) { return name_of(each.param); });

}  // namespace products_cuda_test
}  // namespace hydrascope::kernels::test
