#include "kernels/gelu/gelu_launch.cuh"

namespace hydrascope::kernels::gelu::cuda {

void gelu(float* values, std::int64_t count, device::Stream stream) {
  launch(values, count, stream);
}

}  // namespace hydrascope::kernels::gelu::cuda
