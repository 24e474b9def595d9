#include "kernels/hydra/hydra_launch.cuh"

namespace hydrascope::kernels::hydra::cuda {

void forward(const ForwardParams<Float16>& params, device::Stream stream) {
  launch_forward(params, stream);
}
void backward(const BackwardParams<Float16>& params, device::Stream stream) {
  launch_backward(params, stream);
}

}  // namespace hydrascope::kernels::hydra::cuda
