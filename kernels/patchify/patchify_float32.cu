#include "kernels/patchify/patchify_launch.cuh"

namespace hydrascope::kernels::patchify::cuda {

void from_pixels(const PixelParams<float>& params, device::Stream stream) {
  launch_from_pixels(params, stream);
}
void from_tensor(const TensorParams<float>& params, device::Stream stream) {
  launch_from_tensor(params, stream);
}

}  // namespace hydrascope::kernels::patchify::cuda
