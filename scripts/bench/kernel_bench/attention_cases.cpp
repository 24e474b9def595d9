#include "kernels/hydra/hydra_cuda.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "scripts/bench/kernel_bench/device_memory.h"
#include "scripts/bench/kernel_bench/work.h"

#include <string>
#include <utility>

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
/// 3 D, and so their gradients; y and its gradient in rows of their own.
struct Tensors {
  std::int64_t images;
  std::int64_t tokens;
  DeviceMemory<BFloat16> qkv, y, grad_y, grads;

  Tensors(std::int64_t b, std::int64_t n, bool backward)
      : images(b), tokens(n), qkv(random_memory<BFloat16>(values(3), 1)), y(values(1)) {
    if (!backward) return;
    grad_y = random_memory<BFloat16>(values(1), 2);
    grads = DeviceMemory<BFloat16>(values(3));
  }
  [[nodiscard]] std::size_t values(int parts) const {
    return static_cast<std::size_t>(images * tokens * parts * kDim);
  }
  template <class T = const BFloat16>
  [[nodiscard]] kernels::device::Rows<T> of(const DeviceMemory<BFloat16>& memory,
                                            int part = 0) const {
    const std::int64_t stride = static_cast<std::int64_t>(memory.size()) / (images * tokens);
    return {memory.data() + part * kDim, stride, tokens * stride};
  }
};

Case hydra_case(std::int64_t images, std::int64_t tokens, bool backward) {
  const double values = static_cast<double>(images * tokens * kDim);
  const auto prepare = [=](Stream stream) -> Work {
    const Tensors t(images, tokens, backward);
    const hydra::cuda::Shape shape{images, tokens, tokens, kDim, hydra::Kernel{}, {}};
    const DeviceMemory<float> global(static_cast<std::size_t>(images * kDim));
    const auto workspace = zeroed_memory<std::uint8_t>(hydra::cuda::workspace_bytes(shape));
    const auto forward = [=](Stream s) {
      hydra::cuda::forward<BFloat16>(
          {shape, t.of(t.qkv, 0), t.of(t.qkv, 1), t.of(t.qkv, 2), nullptr, global.data(),
           t.of<BFloat16>(t.y), workspace.data()},
          s);
    };
    if (!backward)
      return {forward,
              [=] { return is_finite(t.y) && is_finite(global); },
              {{t.y.data(), t.y.bytes()}, {global.data(), global.bytes()}}};
    forward(stream);
    const auto run = [=](Stream s) {
      hydra::cuda::backward<BFloat16>(
          {shape, t.of(t.qkv, 0), t.of(t.qkv, 1), t.of(t.qkv, 2), nullptr, global.data(),
           t.of(t.grad_y), t.of<BFloat16>(t.grads, 0), t.of<BFloat16>(t.grads, 1),
           t.of<BFloat16>(t.grads, 2), nullptr, workspace.data()},
          s);
    };
    return {run, [=] { return is_finite(t.grads); }};
  };
  return {backward ? "hydra backward" : "hydra forward",
          shape_text(images, tokens, "D " + std::to_string(kDim)),
          "bfloat16",
          (backward ? 7 : 4) * values * sizeof(BFloat16),
          (backward ? 24 : 8) * values,
          prepare};
}

Case linear_case(const std::string& name, linear::Feature feature, std::int64_t images,
                 std::int64_t tokens, bool backward) {
  const linear::Shape shape{kHeads, kDim / kHeads, kDim / kHeads, {feature}};
  const linear::cuda::Extent extent{images, tokens, tokens, {}};
  const double values = static_cast<double>(images * tokens * kDim);
  // A product of F x d a token and head for the state and one to read it; backward four.
  const double products = backward ? 4 : 2;
  const auto prepare = [=](Stream stream) -> Work {
    const Tensors t(images, tokens, backward);
    const DeviceMemory<float> state(linear::cuda::state_floats(shape, extent));
    const DeviceMemory<float> denominator(
        backward ? static_cast<std::size_t>(images * kHeads * tokens) : 0);
    const DeviceMemory<std::uint8_t> workspace(
        backward ? linear::cuda::backward_workspace_bytes<BFloat16>(shape, extent)
                 : linear::cuda::workspace_bytes<BFloat16>(shape, extent));
    const auto forward = [=](Stream s) {
      linear::cuda::forward<BFloat16>(
          {shape, extent, t.of(t.qkv, 0), t.of(t.qkv, 1), t.of(t.qkv, 2), t.of<BFloat16>(t.y),
           state.data(), backward ? denominator.data() : nullptr, workspace.data()},
          s);
    };
    if (!backward) return {forward, [=] { return is_finite(t.y) && is_finite(state); }};
    forward(stream);
    const auto run = [=](Stream s) {
      linear::cuda::backward<BFloat16>(
          {shape, extent, t.of(t.qkv, 0), t.of(t.qkv, 1), t.of(t.qkv, 2), t.of(t.y), state.data(),
           denominator.data(), t.of(t.grad_y), t.of<BFloat16>(t.grads, 0),
           t.of<BFloat16>(t.grads, 1), t.of<BFloat16>(t.grads, 2), workspace.data()},
          s);
    };
    return {run, [=] { return is_finite(t.grads); }};
  };
  return {name + (backward ? " backward" : " forward"),
          shape_text(images, tokens, "H 12, d 64"),
          "bfloat16",
          (backward ? 8 : 4) * values * sizeof(BFloat16),
          2 * products * values * static_cast<double>(shape.features()),
          prepare};
}

}  // namespace

std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  for (const bool backward : {false, true})
    for (const std::int64_t tokens : {kFullHd, kUltraHd})
      for (const std::int64_t images : {std::int64_t{1}, kImages})
        cases.push_back(hydra_case(images, tokens, backward));
  for (const auto& [name, feature] :
       {std::pair{"hedgehog", linear::Feature::exp_pair}, {"elu", linear::Feature::elu_plus_one}})
    for (const auto& [images, tokens] : {std::pair{std::int64_t{1}, kLong}, {kImages, kFullHd}})
      for (const bool backward : {false, true})
        cases.push_back(linear_case(name, feature, images, tokens, backward));
  return cases;
}

}  // namespace hydrascope::bench
