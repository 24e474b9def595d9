#include "kernels/attention_map/attention_map_launch.cuh"

namespace hydrascope::kernels::attention_map::cuda {

void hydra_map(const HydraMapParams<BFloat16>& params, device::Stream stream) {
  launch_hydra_map(params, stream);
}
void softmax_scores(const SoftmaxScoresParams<BFloat16>& params, device::Stream stream) {
  launch_softmax_scores(params, stream);
}
void linear_scores(const LinearScoresParams<BFloat16>& params, device::Stream stream) {
  launch_linear_scores(params, stream);
}
void value_heat(const ValueHeatParams<BFloat16>& params, device::Stream stream) {
  launch_value_heat(params, stream);
}

}  // namespace hydrascope::kernels::attention_map::cuda
