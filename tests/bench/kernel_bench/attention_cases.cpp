#include "kernels/hydra/hydra_cuda.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "tests/bench/kernel_bench/device_memory.h"
#include "tests/bench/kernel_bench/work.h"

#include <memory>

namespace hydrascope::bench {
namespace {

using kernels::BFloat16;
using kernels::device::Stream;
namespace hydra = kernels::hydra;
namespace linear = kernels::linear_attention;

constexpr std::int64_t kHeads = sized(12, 2);  // ViT-B
constexpr std::int64_t kDim = 64 * kHeads;
constexpr std::int64_t kImages = sized(8, 2);
constexpr std::int64_t kFullHd = sized(8161, 70);    // tokens of 1088x1920
constexpr std::int64_t kUltraHd = sized(32401, 90);  // of 2160x3840
constexpr std::int64_t kLong = sized(32768, 130);

std::string shape_text(std::int64_t images, std::int64_t tokens, const std::string& rest) {
  return "B " + std::to_string(images) + ", N " + std::to_string(tokens) + ", " + rest;
}

/// q, k and v of B x N tokens as a product with the weights of all three leaves them, in rows of
/// 3 D; y and gradients in rows of their own.
struct Tensors {
  std::int64_t images;
  std::int64_t tokens;
  DeviceMemory<BFloat16> qkv;
  DeviceMemory<BFloat16> y;
  DeviceMemory<BFloat16> grad_y;
  DeviceMemory<BFloat16> grads;
  DeviceMemory<float> global;
  DeviceMemory<float> denominator;
  DeviceMemory<std::uint8_t> workspace;

  Tensors(std::int64_t b, std::int64_t n, bool backward)
      : images(b),
        tokens(n),
        qkv(random_memory<BFloat16>(static_cast<std::size_t>(b * n * 3 * kDim), 1)),
        y(static_cast<std::size_t>(b * n * kDim)) {
    if (!backward) return;
    grad_y = random_memory<BFloat16>(static_cast<std::size_t>(b * n * kDim), 2);
    grads = DeviceMemory<BFloat16>(static_cast<std::size_t>(b * n * 3 * kDim));
  }

  template <class Rows>
  [[nodiscard]] Rows of(const DeviceMemory<BFloat16>& memory, int part = 0) const {
    const auto count = static_cast<std::int64_t>(memory.size());
    const std::int64_t stride = count / (images * tokens);
    return {memory.data() + part * kDim, stride, tokens * stride};
  }
};

hydra::cuda::Shape hydra_shape(std::int64_t images, std::int64_t tokens) {
  return {images, tokens, tokens, kDim, hydra::Kernel{}, {}};
}

hydra::cuda::ForwardParams<BFloat16> hydra_forward(const Tensors& t) {
  using Read = hydra::cuda::Rows<const BFloat16>;
  hydra::cuda::ForwardParams<BFloat16> params{};
  params.shape = hydra_shape(t.images, t.tokens);
  params.q = t.of<Read>(t.qkv, 0);
  params.k = t.of<Read>(t.qkv, 1);
  params.v = t.of<Read>(t.qkv, 2);
  params.global = t.global.data();
  params.y = t.of<hydra::cuda::Rows<BFloat16>>(t.y);
  params.workspace = t.workspace.data();
  return params;
}

std::shared_ptr<Tensors> hydra_tensors(std::int64_t images, std::int64_t tokens, bool backward) {
  auto tensors = std::make_shared<Tensors>(images, tokens, backward);
  tensors->global = DeviceMemory<float>(static_cast<std::size_t>(images * kDim));
  tensors->workspace =
      zeroed_memory<std::uint8_t>(hydra::cuda::workspace_bytes(hydra_shape(images, tokens)));
  return tensors;
}

Case hydra_case(std::int64_t images, std::int64_t tokens, bool backward) {
  const double values = static_cast<double>(images * tokens * kDim);
  const double passes = backward ? 7 : 4;
  const double flops = backward ? 24 : 8;
  Case result{backward ? "hydra backward" : "hydra forward",
              shape_text(images, tokens, "D " + std::to_string(kDim)),
              "bfloat16",
              passes * values * sizeof(BFloat16),
              flops * values,
              {}};
  result.prepare = [=](Stream stream) -> Work {
    auto t = hydra_tensors(images, tokens, backward);
    const auto forward = hydra_forward(*t);
    if (!backward) {
      return {[=](Stream s) { hydra::cuda::forward(forward, s); },
              {},
              [t] { return is_finite(t->y) && is_finite(t->global); },
              {{t->y.data(), t->y.bytes()}, {t->global.data(), t->global.bytes()}}};
    }
    using Write = hydra::cuda::Rows<BFloat16>;
    hydra::cuda::forward(forward, stream);
    hydra::cuda::BackwardParams<BFloat16> params{};
    params.shape = forward.shape;
    params.q = forward.q;
    params.k = forward.k;
    params.v = forward.v;
    params.global = t->global.data();
    params.grad_y = t->of<hydra::cuda::Rows<const BFloat16>>(t->grad_y);
    params.grad_q = t->of<Write>(t->grads, 0);
    params.grad_k = t->of<Write>(t->grads, 1);
    params.grad_v = t->of<Write>(t->grads, 2);
    params.workspace = t->workspace.data();
    return {[=](Stream s) { hydra::cuda::backward(params, s); },
            {},
            [t] { return is_finite(t->grads); }};
  };
  return result;
}

linear::Shape linear_shape(linear::Feature feature) {
  return {kHeads, kDim / kHeads, kDim / kHeads, {feature}};
}

linear::cuda::Extent linear_extent(std::int64_t images, std::int64_t tokens) {
  return {images, tokens, tokens, {}};
}

std::shared_ptr<Tensors> linear_tensors(const linear::Shape& shape, std::int64_t images,
                                        std::int64_t tokens, bool backward) {
  const linear::cuda::Extent extent = linear_extent(images, tokens);
  auto tensors = std::make_shared<Tensors>(images, tokens, backward);
  tensors->global = DeviceMemory<float>(linear::cuda::state_floats(shape, extent));
  tensors->workspace = DeviceMemory<std::uint8_t>(
      backward ? linear::cuda::backward_workspace_bytes<BFloat16>(shape, extent)
               : linear::cuda::workspace_bytes<BFloat16>(shape, extent));
  if (backward)
    tensors->denominator = DeviceMemory<float>(static_cast<std::size_t>(images * kHeads * tokens));
  return tensors;
}

linear::cuda::ForwardParams<BFloat16> linear_forward(const linear::Shape& shape, const Tensors& t) {
  using Read = linear::cuda::Rows<const BFloat16>;
  linear::cuda::ForwardParams<BFloat16> params{};
  params.shape = shape;
  params.extent = linear_extent(t.images, t.tokens);
  params.q = t.of<Read>(t.qkv, 0);
  params.k = t.of<Read>(t.qkv, 1);
  params.v = t.of<Read>(t.qkv, 2);
  params.y = t.of<linear::cuda::Rows<BFloat16>>(t.y);
  params.state = t.global.data();
  params.denominator = t.denominator.data();
  params.workspace = t.workspace.data();
  return params;
}

Case linear_case(const std::string& name, linear::Feature feature, std::int64_t images,
                 std::int64_t tokens, bool backward) {
  const linear::Shape shape = linear_shape(feature);
  const double values = static_cast<double>(images * tokens * kDim);
  // A product of F x d a token and head for the state and one to read it; backward four.
  const double products = backward ? 4 : 2;
  const double passes = backward ? 8 : 4;
  Case result{name + (backward ? " backward" : " forward"),
              shape_text(images, tokens, "H 12, d 64"),
              "bfloat16",
              passes * values * sizeof(BFloat16),
              2 * products * values * static_cast<double>(shape.features()),
              {}};
  result.prepare = [=](Stream stream) -> Work {
    auto t = linear_tensors(shape, images, tokens, backward);
    const auto forward = linear_forward(shape, *t);
    if (!backward) {
      return {[=](Stream s) { linear::cuda::forward(forward, s); },
              {},
              [t] { return is_finite(t->y) && is_finite(t->global); }};
    }
    using Read = linear::cuda::Rows<const BFloat16>;
    using Write = linear::cuda::Rows<BFloat16>;
    linear::cuda::forward(forward, stream);
    linear::cuda::BackwardParams<BFloat16> params{};
    params.shape = shape;
    params.extent = forward.extent;
    params.q = forward.q;
    params.k = forward.k;
    params.v = forward.v;
    params.y = t->of<Read>(t->y);
    params.state = t->global.data();
    params.denominator = t->denominator.data();
    params.grad_y = t->of<Read>(t->grad_y);
    params.grad_q = t->of<Write>(t->grads, 0);
    params.grad_k = t->of<Write>(t->grads, 1);
    params.grad_v = t->of<Write>(t->grads, 2);
    params.workspace = t->workspace.data();
    return {[=](Stream s) { linear::cuda::backward(params, s); },
            {},
            [t] { return is_finite(t->grads); }};
  };
  return result;
}

}  // namespace

std::vector<Case> hydra_cases() {
  std::vector<Case> cases;
  for (const bool backward : {false, true})
    for (const std::int64_t tokens : {kFullHd, kUltraHd})
      for (const std::int64_t images : {std::int64_t{1}, kImages})
        cases.push_back(hydra_case(images, tokens, backward));
  return cases;
}

std::vector<Case> linear_attention_cases() {
  struct Setting {
    const char* name;
    linear::Feature feature;
  };
  struct Batch {
    std::int64_t images;
    std::int64_t tokens;
  };
  std::vector<Case> cases;
  for (const Setting& setting : {Setting{"hedgehog", linear::Feature::exp_pair},
                                 Setting{"elu", linear::Feature::elu_plus_one}}) {
    for (const Batch& batch : {Batch{1, kLong}, Batch{kImages, kFullHd}}) {
      for (const bool backward : {false, true}) {
        cases.push_back(
            linear_case(setting.name, setting.feature, batch.images, batch.tokens, backward));
      }
    }
  }
  return cases;
}

}  // namespace hydrascope::bench
