// A product of more than 2^31 elements. For a GPU only: it takes 5 GB.
#include "kernels/linear/cublas_lt_products.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/fills.h"
#include "tests/kernels/linear/host_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

namespace hydrascope::kernels::test {
namespace large_products_cuda_test {

// fc1 of DeiT-B has that many from 86 pictures of 1088x1920 on.
TEST(CublasLtTest, MoreThanTwoToThe31Elements) {
  HYDRASCOPE_SKIP_WITHOUT_DEVICE();
  linear::cuda::ProductShape shape;
  shape.type = linear::cuda::ProductType::bfloat16;
  shape.rows = 700000;
  shape.in = shape.x_stride = 64;
  shape.out = shape.y_stride = 3072;
  std::vector<BFloat16> x(static_cast<std::size_t>(shape.rows * shape.in));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = BFloat16(static_cast<float>(i * 37 % 101) / 64 - 0.75F);
  std::vector<float> numbers(static_cast<std::size_t>(shape.out * (shape.in + 1)));
  fill(numbers, Fill::normal, 1);
  std::vector<BFloat16> weights;
  for (const float each : numbers) weights.emplace_back(each / 8);
  const BFloat16* bias = weights.data() + shape.out * shape.in;
  DeviceArray<BFloat16> device_x(x);
  DeviceArray<BFloat16> device_weights(weights);
  const std::size_t count = static_cast<std::size_t>(shape.rows * shape.out);
  const std::shared_ptr<void> y(take_device_memory(count * sizeof(BFloat16)), return_device_memory);
  linear::cuda::CublasLtOptions options;
  options.allocate = [](std::size_t bytes) -> std::shared_ptr<void> {
    return {take_device_memory(bytes), return_device_memory};
  };
  const auto products = linear::cuda::make_cublas_lt_products(options);
  products->run(products->plan(shape), device_x.data(), device_weights.data(),
                device_weights.data() + shape.out * shape.in, nullptr, y.get());
  linear::cuda::ProductShape row = shape;
  row.rows = 1;
  std::vector<BFloat16> wanted(static_cast<std::size_t>(shape.out));
  std::vector<BFloat16> found(wanted.size());
  for (const std::int64_t at : {std::int64_t{0}, std::int64_t{349525}, std::int64_t{699050},
                                std::int64_t{699051}, shape.rows - 1}) {
    host_product<BFloat16>(row, x.data() + at * shape.in, weights.data(), bias, nullptr,
                           wanted.data());
    copy_memory(found.data(), static_cast<const BFloat16*>(y.get()) + at * shape.out,
                found.size() * sizeof(BFloat16));
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(static_cast<float>(found[i]), static_cast<float>(wanted[i]), 0.05F)
          << "row " << at << ", column " << i;
  }
}

}  // namespace large_products_cuda_test
}  // namespace hydrascope::kernels::test
