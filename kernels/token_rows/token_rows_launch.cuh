// The launches of token_rows.cuh.
#pragma once

#include "kernels/device/launch.cuh"
#include "kernels/error.h"
#include "kernels/token_rows/token_rows.cuh"

namespace hydrascope::kernels::token_rows::cuda {

template <class T>
void launch_prefix_tokens(const PrefixTokensParams<T>& p, device::Stream stream) {
  if (p.images * p.num_prefix * p.dim == 0) return;
  device::launch("prefix_tokens_kernel", prefix_tokens_kernel<T>,
                 prefix_geometry(p.images, p.num_prefix), stream, p);
}

template <class T>
void launch_mean_of_patches(const MeanOfPatchesParams<T>& p, device::Stream stream) {
  if (p.tokens <= p.num_prefix)
    throw Error(ErrorCode::internal, "a mean of patches needs one behind the prefix",
                "mean_of_patches");
  if (p.images * p.dim == 0) return;
  constexpr int kPack = device::kPackSize<T>;
  const auto run = [&]<int pack>() {
    device::launch("mean_of_patches_kernel", mean_of_patches_kernel<T, pack>,
                   mean_geometry(p.images, p.dim, pack), stream, p);
  };
  if (device::can_pack(p.x, p.x_stride, kPack) && p.image_stride % kPack == 0 && p.dim % kPack == 0)
    run.template operator()<kPack>();
  else
    run.template operator()<1>();
}

}  // namespace hydrascope::kernels::token_rows::cuda
