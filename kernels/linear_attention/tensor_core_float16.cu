#include "kernels/linear_attention/tensor_core_run.cuh"

namespace hydrascope::kernels::linear_attention::cuda {

template bool tensor_core_serves(const ForwardParams<Float16>&);
template bool tensor_core_serves(const BackwardParams<Float16>&);
template std::size_t tensor_core_workspace_bytes<Float16>(const Shape&, const Extent&);
template std::size_t tensor_core_backward_workspace_bytes<Float16>(const Shape&, const Extent&);
template void tensor_core_forward(const ForwardParams<Float16>&, device::Stream, std::int64_t);
template void tensor_core_backward(const BackwardParams<Float16>&, device::Stream, std::int64_t);

}  // namespace hydrascope::kernels::linear_attention::cuda
