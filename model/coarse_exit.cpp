#include "model/coarse_exit.h"

#include "model/attention/projection/patch_pooling.h"

#include <ATen/ATen.h>

namespace hydrascope::model {

at::Tensor coarse_tokens(const at::Tensor& tokens, const TokenGrid& grid) {
  return at::cat({tokens.narrow(1, 0, grid.num_prefix), pool_cells(tokens, grid, kCoarsePatches),
                  tokens.slice(1, grid.num_prefix + grid.num_patches())},
                 1);
}

}  // namespace hydrascope::model
