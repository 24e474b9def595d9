// Which of the kernels of layer_norm.cuh runs.
#pragma once

#include "kernels/device/launch.cuh"
#include "kernels/error.h"
#include "kernels/layer_norm/layer_norm.cuh"

namespace hydrascope::kernels::layer_norm::cuda {

template <class T>
bool in_packs(const LayerNormParams<T>& p) {
  constexpr int kPack = device::kPackSize<T>;
  return device::can_pack(p.x, p.x_stride, kPack) && device::can_pack(p.y, p.y_stride, kPack) &&
         device::can_pack(p.weight, 0, 4) && device::can_pack(p.bias, 0, 4);
}

template <class T>
void launch(const LayerNormParams<T>& p, device::Stream stream) {
  if (p.dim < 1)
    throw Error(ErrorCode::internal, "layer_norm needs a dim of 1 or more", "layer_norm");
  if (p.rows == 0) return;
  const device::Geometry layout = geometry(p.rows);
  const auto run = [&]<int packs>() {
    device::launch("layer_norm_kernel", layer_norm_kernel<T, packs>, layout, stream, p);
  };
  const int packs = in_packs(p) ? packs_per_lane(p.dim, sizeof(T)) : 0;
  if constexpr (sizeof(T) == 2) {
    static_assert(std::size(kPacksOf16Bits) == 6 && std::size(kPacksOfFloats) == 5);
    switch (packs) {
      case kPacksOf16Bits[0]: return run.template operator()<kPacksOf16Bits[0]>();
      case kPacksOf16Bits[1]: return run.template operator()<kPacksOf16Bits[1]>();
      case kPacksOf16Bits[2]: return run.template operator()<kPacksOf16Bits[2]>();
      case kPacksOf16Bits[3]: return run.template operator()<kPacksOf16Bits[3]>();
      case kPacksOf16Bits[4]: return run.template operator()<kPacksOf16Bits[4]>();
      case kPacksOf16Bits[5]: return run.template operator()<kPacksOf16Bits[5]>();
      default: break;
    }
  } else {
    switch (packs) {
      case kPacksOfFloats[0]: return run.template operator()<kPacksOfFloats[0]>();
      case kPacksOfFloats[1]: return run.template operator()<kPacksOfFloats[1]>();
      case kPacksOfFloats[2]: return run.template operator()<kPacksOfFloats[2]>();
      case kPacksOfFloats[3]: return run.template operator()<kPacksOfFloats[3]>();
      case kPacksOfFloats[4]: return run.template operator()<kPacksOfFloats[4]>();
      default: break;
    }
  }
  device::launch("layer_norm_strided_kernel", layer_norm_strided_kernel<T>, layout, stream, p);
}

}  // namespace hydrascope::kernels::layer_norm::cuda
