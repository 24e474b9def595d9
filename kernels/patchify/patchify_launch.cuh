// Which of the kernels of patchify.cuh runs.
#pragma once

#include "kernels/device/launch.cuh"
#include "kernels/error.h"
#include "kernels/patchify/patchify.cuh"

#include <cstdint>

namespace hydrascope::kernels::patchify::cuda {

/// The kernels count patches and the values of one in 32 bits.
template <class Params>
void check_size(const Params& p, std::int64_t channels) {
  constexpr std::int64_t kMost = 2147483647;
  if (p.patch_size < 1 || channels * p.patch_size > kMost / p.patch_size || p.grid_rows > kMost ||
      p.grid_columns > kMost)
    throw Error(ErrorCode::internal, "a patch has 1 to 2^31 - 1 values, a grid as many rows",
                "patchify");
}

/// Calls run.operator()<size>() for a size that kernels are compiled for.
template <class Run>
bool with_patch_size(std::int64_t size, const Run& run) {
  switch (size) {
    case 8: return run.template operator()<8>();
    case 14: return run.template operator()<14>();
    case 16: return run.template operator()<16>();
    case 32: return run.template operator()<32>();
    default: return false;
  }
}

template <class T>
void launch_from_pixels(const PixelParams<T>& p, device::Stream stream) {
  check_size(p, 3);
  const std::int64_t patches = p.images * p.grid_rows * p.grid_columns;
  if (patches == 0) return;
  const bool done = with_patch_size(p.patch_size, [&]<int patch>() {
    if (!device::can_pack(p.y, 0, PatchShape<patch, sizeof(T)>::kPack)) return false;
    device::launch(
        "patch_pixels_kernel", patch_pixels_kernel<T, patch>,
        pixel_geometry(p.images, p.grid_rows, p.grid_columns, PixelTile<patch>::kPatches), stream,
        p);
    return true;
  });
  if (!done)
    device::launch("patch_pixels_any_kernel", patch_pixels_any_kernel<T>, patch_geometry(patches),
                   stream, p);
}

template <class T>
void launch_from_tensor(const TensorParams<T>& p, device::Stream stream) {
  check_size(p, p.channels);
  const std::int64_t patches = p.images * p.grid_rows * p.grid_columns;
  const std::int64_t planes = patches * p.channels;
  if (planes == 0) return;
  const bool done = with_patch_size(p.patch_size, [&]<int patch>() {
    using Shape = PatchShape<patch, sizeof(T)>;
    constexpr int kRead = Shape::kUnit < 4 ? Shape::kUnit : 4;
    if (!device::can_pack(p.y, 0, Shape::kPack) || !device::can_pack(p.tensor, p.width, kRead) ||
        planes > 4294967295)
      return false;
    device::launch("patch_tensor_kernel", patch_tensor_kernel<T, patch>,
                   pack_geometry(planes * Shape::kPacksOfPlane), stream, p);
    return true;
  });
  if (!done)
    device::launch("patch_tensor_any_kernel", patch_tensor_any_kernel<T>, patch_geometry(patches),
                   stream, p);
}

}  // namespace hydrascope::kernels::patchify::cuda
