#include "kernels/hydra/hydra_launch.cuh"

namespace hydrascope::kernels::hydra::cuda {

std::size_t workspace_bytes(const Shape& shape) {
  return workspace_layout(shape.images, shape.tokens, shape.dim).bytes;
}

std::size_t workspace_zero_bytes(const Shape& shape) {
  return workspace_layout(shape.images, shape.tokens, shape.dim).partial;
}

void forward(const ForwardParams<float>& params, device::Stream stream) {
  launch_forward(params, stream);
}
void backward(const BackwardParams<float>& params, device::Stream stream) {
  launch_backward(params, stream);
}

}  // namespace hydrascope::kernels::hydra::cuda
