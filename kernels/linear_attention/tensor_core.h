// The door to linear attention on tensor cores: which calls it serves (geometry.h: which shapes), and
// the calls. Declarations only, for BFloat16 and Float16, so that any host code may include it.
#pragma once

#include "kernels/device/stream.h"
#include "kernels/linear_attention/geometry.h"
#include "kernels/linear_attention/linear_attention_cuda.h"

#include <cstdint>

namespace hydrascope::kernels::linear_attention::cuda::tensor_core {

/// Whether this call is served: its shape is, rows and state can be read in packs of 16 bytes, and no
/// weight of a map with exponents is negative. `state` and `denominator` mean the same to float32
/// arithmetic, so that forward and backward pass may be answered differently.
template <class T>
bool serves(const ForwardParams<T>& params);
/// As BackwardParams has it, every query has a key: queries = tokens.
template <class T>
bool serves(const BackwardParams<T>& params);

/// Without images or tokens nothing is launched nor written; without queries the state is. What
/// `multiprocessors` are is for tiles_a_block alone.
template <class T>
void forward(const ForwardParams<T>& params, device::Stream stream,
             std::int64_t multiprocessors = device::kMultiprocessors);
template <class T>
void backward(const BackwardParams<T>& params, device::Stream stream,
              std::int64_t multiprocessors = device::kMultiprocessors);

}  // namespace hydrascope::kernels::linear_attention::cuda::tensor_core
