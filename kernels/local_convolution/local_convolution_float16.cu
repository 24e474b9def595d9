#include "kernels/local_convolution/local_convolution_launch.cuh"

namespace hydrascope::kernels::local_convolution::cuda {

void add(const AddParams<Float16>& params, device::Stream stream) { launch(params, stream); }

}  // namespace hydrascope::kernels::local_convolution::cuda
