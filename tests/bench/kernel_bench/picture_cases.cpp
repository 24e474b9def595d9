#include "kernels/patchify/patchify_cuda.h"
#include "tests/bench/kernel_bench/device_memory.h"
#include "tests/bench/kernel_bench/work.h"

#include <memory>

namespace hydrascope::bench {
namespace {

using kernels::BFloat16;
using kernels::device::Stream;

constexpr std::int64_t kPatch = 16;
constexpr std::int64_t kGridRows = sized(1088, 32) / kPatch;
constexpr std::int64_t kGridColumns = sized(1920, 48) / kPatch;

Case patchify_case(std::int64_t images) {
  const double values =
      static_cast<double>(images * kGridRows * kGridColumns * kPatch * kPatch * 3);
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

}  // namespace

std::vector<Case> picture_cases() { return {patchify_case(8), patchify_case(1)}; }

}  // namespace hydrascope::bench
