// The CUDA kernels at the sizes of ViT-B.
#include "kernels/hydra/hydra_cuda.h"
#include "kernels/layer_norm/layer_norm_cuda.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/patchify/patchify_cuda.h"
#include "scripts/bench/kernel_bench/measure.h"

#include <utility>

namespace hydrascope::bench {
namespace {

using kernels::BFloat16;
using kernels::device::Stream;
namespace hydra = kernels::hydra;
namespace linear = kernels::linear_attention;

constexpr std::int64_t kHeads = sized(12, 2);
constexpr std::int64_t kDim = 64 * kHeads;
constexpr std::int64_t kImages = sized(8, 2);
constexpr std::int64_t kFullHd = sized(8161, 70);    // tokens of 1088x1920
constexpr std::int64_t kUltraHd = sized(32401, 90);  // of 2160x3840
constexpr std::int64_t kLong = sized(32768, 130);
constexpr std::int64_t kPatch = 16;
constexpr std::int64_t kGridRows = sized(1088, 32) / kPatch;
constexpr std::int64_t kGridColumns = sized(1920, 48) / kPatch;

std::string shape_text(std::int64_t images, std::int64_t tokens, const std::string& rest) {
  return "B " + std::to_string(images) + ", N " + std::to_string(tokens) + ", " + rest;
}

/// q, k and v of B x N tokens as a product with the weights of all three leaves them, in rows of
/// 3 D; y in rows of its own.
struct Tensors {
  std::int64_t tokens;
  DeviceMemory<BFloat16> qkv, y;

  Tensors(std::int64_t b, std::int64_t n)
      : tokens(n),
        qkv(random_memory<BFloat16>(static_cast<std::size_t>(b * n * 3 * kDim))),
        y(static_cast<std::size_t>(b * n * kDim)) {}
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
  const auto prepare = [=]() -> Work {
    const Tensors t(images, tokens);
    const hydra::cuda::Shape shape{images, tokens, tokens, kDim, hydra::Kernel{}, {}};
    const DeviceMemory<float> global(static_cast<std::size_t>(images * kDim));
    const auto workspace = zeroed_memory(hydra::cuda::workspace_bytes(shape));
    const auto run = [=](Stream s) {
      hydra::cuda::forward<BFloat16>({shape, t.part(0), t.part(1), t.part(2), nullptr,
                                      global.data(), t.result(), workspace.data()},
                                     s);
    };
    return {run,
            [=] { return is_finite(t.y) && is_finite(global); },
            {{t.y.data(), t.y.bytes()}, {global.data(), global.bytes()}}};
  };
  return {"hydra forward", shape_text(images, tokens, "D " + std::to_string(kDim)),
          "bfloat16",      4 * values * sizeof(BFloat16),
          8 * values,      prepare};
}

Case linear_case(const std::string& name, linear::Feature feature, std::int64_t images,
                 std::int64_t tokens) {
  const linear::Shape shape{kHeads, kDim / kHeads, kDim / kHeads, {feature}};
  const double values = static_cast<double>(images * tokens * kDim);
  const auto prepare = [=]() -> Work {
    const Tensors t(images, tokens);
    const linear::cuda::Extent extent{images, tokens, tokens, {}};
    const DeviceMemory<float> state(linear::cuda::state_floats(shape, extent));
    const DeviceMemory<std::uint8_t> workspace(linear::cuda::workspace_bytes(shape, extent));
    const auto run = [=](Stream s) {
      linear::cuda::forward<BFloat16>({shape, extent, t.part(0), t.part(1), t.part(2), t.result(),
                                       state.data(), workspace.data()},
                                      s);
    };
    return {run, [=] { return is_finite(t.y) && is_finite(state); }};
  };
  // A product of F x d a token and head for the state and one to read it.
  return {name + " forward",
          shape_text(images, tokens, "H 12, d 64"),
          "bfloat16",
          4 * values * sizeof(BFloat16),
          4 * values * static_cast<double>(shape.features()),
          prepare};
}

Case layer_norm_case() {
  constexpr std::int64_t kRows = kImages * kFullHd;
  constexpr std::size_t kCount = kRows * kDim;
  constexpr auto kValues = static_cast<double>(kCount);
  const auto prepare = []() -> Work {
    const auto x = random_memory<BFloat16>(kCount);
    const DeviceMemory<BFloat16> y(kCount);
    const auto run = [=](Stream s) {
      kernels::layer_norm::cuda::layer_norm<BFloat16>(
          {x.data(), kDim, kRows, kDim, 1e-6F, y.data(), kDim}, s);
    };
    return {run, [=] { return is_finite(y); }};
  };
  return {"layer_norm", "rows 8 x 8161, D 768",
          "bfloat16",   2 * kValues * sizeof(BFloat16),
          10 * kValues, prepare};
}

Case patchify_case(std::int64_t images) {
  const double values =
      static_cast<double>(images * kGridRows * kGridColumns * kPatch * kPatch * 3);
  const auto prepare = [=]() -> Work {
    const auto pixels = random_memory<std::uint8_t>(static_cast<std::size_t>(values));
    const DeviceMemory<BFloat16> y(static_cast<std::size_t>(values));
    kernels::patchify::cuda::PixelParams<BFloat16> p{};
    p.pixels = pixels.data();
    p.row_bytes = kGridColumns * kPatch * 3;
    p.image_bytes = p.row_bytes * kGridRows * kPatch;
    p.images = images;
    p.grid_rows = kGridRows;
    p.grid_columns = kGridColumns;
    p.patch_size = kPatch;
    p.valid_height = kGridRows * kPatch;
    p.valid_width = kGridColumns * kPatch;
    for (int channel = 0; channel < 3; ++channel) {
      p.scale[channel] = 1 / (255 * 0.225F);
      p.shift[channel] = -0.45F / 0.225F;
    }
    p.y = y.data();
    const auto run = [=](Stream s) {
      static_cast<void>(pixels.data());  // keeps them
      kernels::patchify::cuda::from_pixels(p, s);
    };
    return {run, [=] { return is_finite(y); }};
  };
  return {"patchify",          "B " + std::to_string(images) + ", 1088x1920 pixels, patch 16",
          "uint8 to bfloat16", values * (1 + sizeof(BFloat16)),
          2 * values,          prepare};
}

}  // namespace

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const std::int64_t tokens : {kFullHd, kUltraHd})
    for (const std::int64_t images : {std::int64_t{1}, kImages})
      cases.push_back(hydra_case(images, tokens));
  for (const auto& [name, feature] :
       {std::pair{"hedgehog", linear::Feature::exp_pair}, {"elu", linear::Feature::elu_plus_one}})
    for (const auto& [images, tokens] : {std::pair{std::int64_t{1}, kLong}, {kImages, kFullHd}})
      cases.push_back(linear_case(name, feature, images, tokens));
  cases.push_back(layer_norm_case());
  for (const std::int64_t images : {8, 1}) cases.push_back(patchify_case(images));
  return cases;
}

}  // namespace hydrascope::bench
