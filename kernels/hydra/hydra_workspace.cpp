#include "kernels/hydra/hydra_cuda.h"
#include "kernels/hydra/hydra_geometry.h"

namespace hydrascope::kernels::hydra::cuda {

std::size_t workspace_bytes(const Shape& shape) {
  return workspace_layout(shape.images, shape.tokens, shape.dim).bytes;
}

}  // namespace hydrascope::kernels::hydra::cuda
