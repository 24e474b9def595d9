#include "kernels/linear_attention/linear_attention_launch.cuh"

namespace hydrascope::kernels::linear_attention::cuda {

std::size_t state_floats(const Shape& shape, const Extent& extent) {
  return static_cast<std::size_t>(simt::sums_floats(shape, extent.images));
}

template bool on_tensor_cores<float>(const Shape&);
template std::size_t workspace_bytes<float>(const Shape&, const Extent&);
template std::size_t backward_workspace_bytes<float>(const Shape&, const Extent&);
void forward(const ForwardParams<float>& params, device::Stream stream) {
  run_forward(params, stream);
}
void backward(const BackwardParams<float>& params, device::Stream stream) {
  run_backward(params, stream);
}

}  // namespace hydrascope::kernels::linear_attention::cuda
