// attention_map.h on a GPU: the same functions with the same parameters, pointers being the
// device's, for one image per call. Used by the visualiser's maps and, for a network on a GPU, by
// its plan. The equations of hydra_map, softmax_scores, linear_scores, normalise, value_heat and
// mean_over_heads are there.
//
// Tensors: as there; 16-byte packs where addresses, strides and head sizes allow them, single
//   values else. Geometry: attention_map.cuh.
// Traffic: hydra_map 2 n D s bytes (25 MB for 8161 tokens of ViT-B in bfloat16, estimated 6 us at
//   4.3 TB/s), softmax_scores and value_heat n D s, linear_scores n H w s: bound by memory,
//   linear_scores of exponential maps by n H F exponentials (twice with a softmax in the map).
//   normalise: a head is read three times and written twice by one block, in L2.
// Numerics: float32. A row's result depends on no other row and on no tiling (but packs and single
//   values add in different orders); every run gives the same bits. normalise adds the tokens t of
//   1024 residues t mod 1024, each in their order, then those sums by a tree. Subnormal weights
//   stay. NaN as there; linear_scores' exponents are (slope u_q - shift) + (slope u_k - shift).
// Preconditions: dims, rows, heads and sizes up to 2^30, else Error(invalid_argument). No row or no
//   head: nothing is launched.
// Test: tests/kernels/attention_map/attention_map_cuda_test.cpp; twins: attention_map_reference.h.
#pragma once

#include "kernels/attention_map/attention_map.h"
#include "kernels/device/stream.h"
#include "kernels/vector/scalar_types.h"

#include <cstdint>

namespace hydrascope::kernels::attention_map::cuda {

void hydra_map(const HydraMapParams<float>& params, device::Stream stream);
void hydra_map(const HydraMapParams<BFloat16>& params, device::Stream stream);
void hydra_map(const HydraMapParams<Float16>& params, device::Stream stream);

void softmax_scores(const SoftmaxScoresParams<float>& params, device::Stream stream);
void softmax_scores(const SoftmaxScoresParams<BFloat16>& params, device::Stream stream);
void softmax_scores(const SoftmaxScoresParams<Float16>& params, device::Stream stream);

void linear_scores(const LinearScoresParams<float>& params, device::Stream stream);
void linear_scores(const LinearScoresParams<BFloat16>& params, device::Stream stream);
void linear_scores(const LinearScoresParams<Float16>& params, device::Stream stream);

void normalise(float* scores, std::int64_t score_stride, std::int64_t num_heads,
               std::int64_t num_tokens, Weights rule, float eps, device::Stream stream);

void value_heat(const ValueHeatParams<float>& params, device::Stream stream);
void value_heat(const ValueHeatParams<BFloat16>& params, device::Stream stream);
void value_heat(const ValueHeatParams<Float16>& params, device::Stream stream);

void mean_over_heads(const float* weights, std::int64_t weight_stride, std::int64_t num_heads,
                     std::int64_t rows, float* heat, device::Stream stream);

}  // namespace hydrascope::kernels::attention_map::cuda
