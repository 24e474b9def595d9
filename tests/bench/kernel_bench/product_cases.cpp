#include "kernels/linear/cublas_lt_products.h"
#include "tests/bench/kernel_bench/device_memory.h"
#include "tests/bench/kernel_bench/work.h"

#include <memory>

namespace hydrascope::bench {
namespace {

using kernels::BFloat16;
using kernels::device::Stream;
namespace linear = kernels::linear::cuda;

enum class Epilogue { bias, gelu, add };

Case product_case(const std::string& name, std::int64_t in, std::int64_t out, Epilogue epilogue) {
  constexpr std::int64_t kRows = sized(8 * 8161, 48);
  const double read = static_cast<double>(kRows * in + in * out);
  const double written = static_cast<double>(kRows * out);
  Case result{"linear " + name,
              "rows 8 x 8161, " + std::to_string(in) + " to " + std::to_string(out),
              "bfloat16",
              sizeof(BFloat16) * (read + written * (epilogue == Epilogue::add ? 2 : 1)),
              2 * written * static_cast<double>(in),
              {}};
  result.prepare = [=](Stream stream) -> Work {
    struct Tensors {
      std::unique_ptr<linear::Products> products;
      DeviceMemory<BFloat16> x, weight, bias, c, y;
    };
    auto t = std::make_shared<Tensors>();
    linear::CublasLtOptions options;
    options.stream = stream;
    options.allocate = [](std::size_t bytes) -> std::shared_ptr<void> {
      auto memory = std::make_shared<DeviceMemory<std::uint8_t>>(bytes);
      return {memory, memory->data()};
    };
    t->products = linear::make_cublas_lt_products(options);
    t->x = random_memory<BFloat16>(static_cast<std::size_t>(kRows * in), 1);
    t->weight = random_memory<BFloat16>(static_cast<std::size_t>(in * out), 2);
    t->bias = random_memory<BFloat16>(static_cast<std::size_t>(out), 3);
    t->y = DeviceMemory<BFloat16>(static_cast<std::size_t>(kRows * out));
    linear::ProductShape shape;
    shape.type = linear::ProductType::bfloat16;
    shape.rows = kRows;
    shape.in = shape.x_stride = in;
    shape.out = shape.y_stride = shape.c_stride = out;
    shape.gelu = epilogue == Epilogue::gelu;
    shape.add = epilogue == Epilogue::add;
    if (shape.add) t->c = random_memory<BFloat16>(static_cast<std::size_t>(kRows * out), 4);
    // What DeviceMemory promises.
    shape.x_alignment = shape.weight_alignment = shape.bias_alignment = shape.c_alignment =
        shape.y_alignment = linear::kMaxAlignment;
    const int product = t->products->plan(shape);
    return {[t, product](Stream) {
              t->products->run(product, t->x.data(), t->weight.data(), t->bias.data(), t->c.data(),
                               t->y.data());
            },
            {},
            [t] { return is_finite(t->y); }};
  };
  return result;
}

}  // namespace

std::vector<Case> product_cases() {
  constexpr std::int64_t kDim = sized(768, 64);
  return {product_case("qkv", kDim, 3 * kDim, Epilogue::bias),
          product_case("proj + x", kDim, kDim, Epilogue::add),
          product_case("fc1, gelu", kDim, 4 * kDim, Epilogue::gelu),
          // How much of fc1 its GELU is: more than a tenth means that it is a kernel of its own.
          product_case("fc1", kDim, 4 * kDim, Epilogue::bias),
          product_case("fc2 + x", 4 * kDim, kDim, Epilogue::add)};
}

}  // namespace hydrascope::bench
