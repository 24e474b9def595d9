#include "kernels/overlay/overlay_cuda.h"
#include "kernels/patchify/patchify_cuda.h"
#include "tests/bench/kernel_bench/device_memory.h"
#include "tests/bench/kernel_bench/work.h"

#include <memory>

namespace hydrascope::bench {
namespace {

using kernels::BFloat16;
using kernels::device::Stream;
using kernels::overlay::Edge;

constexpr std::int64_t kPatch = 16;
constexpr std::int64_t kGridRows = 1088 / kPatch;
constexpr std::int64_t kGridColumns = 1920 / kPatch;

Case patchify_case(std::int64_t images) {
  const double values = static_cast<double>(images * 1088 * 1920 * 3);
  Case result{"patchify",          "B " + std::to_string(images) + ", 1088x1920 pixels, patch 16",
              "uint8 to bfloat16", values * (1 + sizeof(BFloat16)),
              2 * values,          {}};
  result.prepare = [images, values](Stream) -> Work {
    struct Tensors {
      DeviceMemory<std::uint8_t> pixels;
      DeviceMemory<BFloat16> y;
    };
    auto t = std::make_shared<Tensors>();
    t->pixels = random_memory<std::uint8_t>(static_cast<std::size_t>(values), 1);
    t->y = DeviceMemory<BFloat16>(static_cast<std::size_t>(values));
    kernels::patchify::cuda::PixelParams<BFloat16> params{};
    params.pixels = t->pixels.data();
    params.row_bytes = kGridColumns * kPatch * 3;
    params.image_bytes = params.row_bytes * kGridRows * kPatch;
    params.images = images;
    params.grid_rows = kGridRows;
    params.grid_columns = kGridColumns;
    params.patch_size = kPatch;
    params.valid_height = kGridRows * kPatch;
    params.valid_width = kGridColumns * kPatch;
    for (int channel = 0; channel < 3; ++channel) {
      params.scale[channel] = 1 / (255 * 0.225F);
      params.shift[channel] = -0.45F / 0.225F;
    }
    params.y = t->y.data();
    return {[=](Stream s) { kernels::patchify::cuda::from_pixels(params, s); },
            {},
            [t] { return is_finite(t->y); }};
  };
  return result;
}

Case overlay_case() {
  constexpr std::int64_t kHeight = 1080;
  constexpr std::int64_t kWidth = 1920;
  constexpr std::size_t kBytes = kHeight * kWidth * 3;
  return {"overlay",
          "1080x1920 pixels, bilinear",
          "uint8",
          2.0 * kBytes,
          60.0 * kHeight * kWidth,
          [](Stream) -> Work {
            struct Tensors {
              DeviceMemory<std::uint8_t> picture, colors, y;
              DeviceMemory<float> heat;
            };
            auto t = std::make_shared<Tensors>();
            t->picture = random_memory<std::uint8_t>(kBytes, 1);
            t->colors = random_memory<std::uint8_t>(3 * 256, 2);
            t->y = DeviceMemory<std::uint8_t>(kBytes);
            t->heat = random_memory<float>(kGridRows * kGridColumns, 3);
            kernels::overlay::OverlayParams params{};
            params.picture = t->picture.data();
            params.picture_stride = params.y_stride = 3 * kWidth;
            params.vertical = Edge::from_corner(kHeight, kGridRows, kGridRows * kPatch);
            params.horizontal = Edge::from_corner(kWidth, kGridColumns, kWidth);
            params.heat = t->heat.data();
            params.heat_stride = kGridColumns;
            params.low = -2;
            params.high = 2;
            params.colors = t->colors.data();
            params.sampling = kernels::overlay::Sampling::bilinear;
            params.opacity = kernels::overlay::Opacity::heat;
            params.alpha = 0.6F;
            params.unseen_brightness = 0.35F;
            params.y = t->y.data();
            return {[=](Stream s) { kernels::overlay::cuda::overlay(params, s); },
                    {},
                    [t] { return is_finite(t->y); }};
          }};
}

}  // namespace

std::vector<Case> picture_cases() { return {patchify_case(8), patchify_case(1), overlay_case()}; }

}  // namespace hydrascope::bench
