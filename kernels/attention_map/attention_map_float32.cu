#include "kernels/attention_map/attention_map_launch.cuh"

namespace hydrascope::kernels::attention_map::cuda {

void hydra_map(const HydraMapParams<float>& params, device::Stream stream) {
  launch_hydra_map(params, stream);
}
void softmax_scores(const SoftmaxScoresParams<float>& params, device::Stream stream) {
  launch_softmax_scores(params, stream);
}
void linear_scores(const LinearScoresParams<float>& params, device::Stream stream) {
  launch_linear_scores(params, stream);
}
void value_heat(const ValueHeatParams<float>& params, device::Stream stream) {
  launch_value_heat(params, stream);
}

void normalise(float* scores, std::int64_t score_stride, std::int64_t num_heads,
               std::int64_t num_tokens, Weights rule, float eps, device::Stream stream) {
  check_sizes("normalise", {num_heads, num_tokens});
  if (rule == Weights::raw || num_heads == 0 || num_tokens == 0) return;
  device::launch("normalise_kernel", normalise_kernel<float>, normalise_geometry(num_heads), stream,
                 {scores, score_stride, num_tokens, rule == Weights::softmax, eps});
}

void mean_over_heads(const float* weights, std::int64_t weight_stride, std::int64_t num_heads,
                     std::int64_t rows, float* heat, device::Stream stream) {
  check_sizes("mean_over_heads", {num_heads, rows});
  if (rows == 0) return;
  device::launch("mean_over_heads_kernel", mean_over_heads_kernel<float>, mean_geometry(rows),
                 stream, {weights, weight_stride, num_heads, rows, heat});
}

}  // namespace hydrascope::kernels::attention_map::cuda
