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
/// 3 D; y in rows of its own.
struct Tensors {
  std::int64_t images;
  std::int64_t tokens;
  DeviceMemory<BFloat16> qkv, y;

  Tensors(std::int64_t b, std::int64_t n)
      : images(b), tokens(n), qkv(random_memory<BFloat16>(values(3), 1)), y(values(1)) {}
  [[nodiscard]] std::size_t values(int parts) const {
    return static_cast<std::size_t>(images * tokens * parts * kDim);
  }
  /// q, k or v.
  [[nodiscard]] kernels::device::Rows<const BFloat16> part(int which) const {
    return {qkv.data() + which * kDim, 3 * kDim, tokens * 3 * kDim};
  }
  [[nodiscard]] kernels::device::Rows<BFloat16> result() const {
    return {y.data(), kDim, tokens * kDim};
  }
};

Case hydra_case(std::int64_t images, std::int64_t tokens) {
  const double values = static_cast<double>(images * tokens * kDim);
  return {"hydra forward",
          shape_text(images, tokens, "D " + std::to_string(kDim)),
          "bfloat16",
          4 * values * sizeof(BFloat16),
          8 * values,
          [=](Stream) -> Work {
            const Tensors t(images, tokens);
            const hydra::cuda::Shape shape{images, tokens, tokens, kDim, hydra::Kernel{}, {}};
            const DeviceMemory<float> global(static_cast<std::size_t>(images * kDim));
            const auto workspace = zeroed_memory<std::uint8_t>(hydra::cuda::workspace_bytes(shape));
            const auto run = [=](Stream s) {
              hydra::cuda::forward<BFloat16>({shape, t.part(0), t.part(1), t.part(2), nullptr,
                                              global.data(), t.result(), workspace.data()},
                                             s);
            };
            return {run,
                    [=] { return is_finite(t.y) && is_finite(global); },
                    {{t.y.data(), t.y.bytes()}, {global.data(), global.bytes()}}};
          }};
}

Case linear_case(const std::string& name, linear::Feature feature, std::int64_t images,
                 std::int64_t tokens) {
  const linear::Shape shape{kHeads, kDim / kHeads, kDim / kHeads, {feature}};
  const double values = static_cast<double>(images * tokens * kDim);
  return {
      name + " forward", shape_text(images, tokens, "H 12, d 64"), "bfloat16",
      4 * values * sizeof(BFloat16),
      // A product of F x d a token and head for the state and one to read it.
      4 * values * static_cast<double>(shape.features()), [=](Stream) -> Work {
        const Tensors t(images, tokens);
        const linear::cuda::Extent extent{images, tokens, tokens, {}};
        const DeviceMemory<float> state(linear::cuda::state_floats(shape, extent));
        const DeviceMemory<std::uint8_t> workspace(linear::cuda::workspace_bytes(shape, extent));
        const auto run = [=](Stream s) {
          linear::cuda::forward<BFloat16>({shape, extent, t.part(0), t.part(1), t.part(2),
                                           t.result(), state.data(), workspace.data()},
                                          s);
        };
        return {run, [=] { return is_finite(t.y) && is_finite(state); }};
      }};
}

}  // namespace

std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  for (const std::int64_t tokens : {kFullHd, kUltraHd})
    for (const std::int64_t images : {std::int64_t{1}, kImages})
      cases.push_back(hydra_case(images, tokens));
  for (const auto& [name, feature] :
       {std::pair{"hedgehog", linear::Feature::exp_pair}, {"elu", linear::Feature::elu_plus_one}})
    for (const auto& [images, tokens] : {std::pair{std::int64_t{1}, kLong}, {kImages, kFullHd}})
      cases.push_back(linear_case(name, feature, images, tokens));
  return cases;
}

}  // namespace hydrascope::bench
