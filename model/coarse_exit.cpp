#include "model/coarse_exit.h"

#include <ATen/ATen.h>

namespace hydrascope::model {

at::Tensor coarse_tokens(const at::Tensor& tokens, const TokenGrid& grid) {
  const at::Tensor patches = tokens.narrow(1, grid.num_prefix, grid.num_patches())
                                 .transpose(1, 2)
                                 .unflatten(2, {grid.rows, grid.columns});
  const at::Tensor means = at::avg_pool2d(patches, kCoarsePatches, kCoarsePatches, 0,
                                          /*ceil_mode=*/true, /*count_include_pad=*/false);
  return at::cat({tokens.narrow(1, 0, grid.num_prefix), means.flatten(2).transpose(1, 2),
                  tokens.slice(1, grid.num_prefix + grid.num_patches())},
                 1);
}

}  // namespace hydrascope::model
