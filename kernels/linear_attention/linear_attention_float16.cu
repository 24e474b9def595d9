#include "kernels/linear_attention/linear_attention_launch.cuh"

namespace hydrascope::kernels::linear_attention::cuda {

template bool on_tensor_cores<Float16>(const Shape&);
template std::size_t workspace_bytes<Float16>(const Shape&, const Extent&);
template std::size_t backward_workspace_bytes<Float16>(const Shape&, const Extent&);
void forward(const ForwardParams<Float16>& params, device::Stream stream) {
  run_forward(params, stream);
}
void backward(const BackwardParams<Float16>& params, device::Stream stream) {
  run_backward(params, stream);
}

}  // namespace hydrascope::kernels::linear_attention::cuda
