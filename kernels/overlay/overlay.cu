#include "kernels/device/launch.cuh"
#include "kernels/error.h"
#include "kernels/overlay/overlay.cuh"
#include "kernels/overlay/overlay_cuda.h"
#include "kernels/overlay/preconditions.h"

namespace hydrascope::kernels::overlay::cuda {

void overlay(const OverlayParams& params, device::Stream stream) {
  check(params);
  const std::int64_t height = params.vertical.pixels;
  const std::int64_t width = params.horizontal.pixels;
  if (groups_of(height, width) > 2147483647)
    throw Error(ErrorCode::internal, "a picture has at most 2^33 pixels", "overlay");
  if (height == 0 || width == 0) return;
  const auto kernel =
      params.sampling == Sampling::bilinear ? overlay_kernel<true> : overlay_kernel<false>;
  device::launch("overlay_kernel", kernel, geometry(height, width), stream, params);
}

}  // namespace hydrascope::kernels::overlay::cuda
