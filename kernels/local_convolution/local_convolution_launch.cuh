// The launch of local_convolution.cuh.
#pragma once

#include "kernels/device/launch.cuh"
#include "kernels/error.h"
#include "kernels/local_convolution/local_convolution.cuh"

#include <string>

namespace hydrascope::kernels::local_convolution::cuda {

template <class T>
void launch(const AddParams<T>& p, device::Stream stream) {
  if (p.images * p.shape.rows * p.shape.columns * p.shape.dim == 0) return;
  constexpr int kPack = device::kPackSize<T>;
  const bool packed = device::can_pack(p.v, p.v_stride, kPack) &&
                      device::can_pack(p.y, p.y_stride, kPack) && p.v_image_stride % kPack == 0 &&
                      p.y_image_stride % kPack == 0 && p.shape.dim % kPack == 0;
  const auto run = [&]<int size, int pack>() {
    device::launch("add_kernel", add_kernel<T, size, pack>,
                   geometry(p.images, p.shape.rows, p.shape.columns, p.shape.dim / pack), stream,
                   p);
  };
  const auto of_size = [&]<int size>() {
    if (packed)
      run.template operator()<size, kPack>();
    else
      run.template operator()<size, 1>();
  };
  switch (p.shape.size) {
    case 3: of_size.template operator()<3>(); return;
    case 5: of_size.template operator()<5>(); return;
    case 7: of_size.template operator()<7>(); return;
    default:
      throw Error(ErrorCode::internal, "there is no kernel of size " + std::to_string(p.shape.size),
                  "local_convolution");
  }
}

}  // namespace hydrascope::kernels::local_convolution::cuda
