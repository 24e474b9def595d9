#include "kernels/token_rows/token_rows_launch.cuh"

namespace hydrascope::kernels::token_rows::cuda {

void prefix_tokens(const PrefixTokensParams<Float16>& params, device::Stream stream) {
  launch_prefix_tokens(params, stream);
}
void mean_of_patches(const MeanOfPatchesParams<Float16>& params, device::Stream stream) {
  launch_mean_of_patches(params, stream);
}

}  // namespace hydrascope::kernels::token_rows::cuda
