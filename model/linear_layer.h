// Linear layers as DeiT initialises them, or left for a checkpoint to fill.
#pragma once

#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <vector>

namespace hydrascope::model {

/// Whether a new module's linear layers get random values. `for_loading` leaves the memory
/// untouched, so that it takes no room until a checkpoint fills it, which must happen.
enum class Initialisation { random, for_loading };

/// Normal with kInitStd, zero bias. DeiT's trunc_normal_ cuts at +-2, which is 100 standard
/// deviations: a plain normal is the same.
void initialise(torch::nn::LinearImpl& linear);

/// torch::nn::Linear without LibTorch's own random values, which would be overwritten in either
/// case and cost DeiT-B a second.
torch::nn::Linear make_linear(std::int64_t in, std::int64_t out, bool bias,
                              Initialisation initialisation);

/// All tensors that a module computes with: its parameters, and weights that are computed from others and
/// have a gradient nevertheless (LoRA).
std::vector<torch::Tensor> weights_of(const torch::nn::Module& module);

/// DeiT's standard deviation of weights and embeddings.
inline constexpr double kInitStd = 0.02;

}  // namespace hydrascope::model
