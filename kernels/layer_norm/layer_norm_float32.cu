#include "kernels/layer_norm/layer_norm_launch.cuh"

namespace hydrascope::kernels::layer_norm::cuda {

void layer_norm(const LayerNormParams<float>& params, device::Stream stream) {
  launch(params, stream);
}

}  // namespace hydrascope::kernels::layer_norm::cuda
