// A linear layer whose memory nobody has touched yet.
#pragma once

#include <torch/nn/modules/linear.h>

namespace hydrascope::model {

/// torch::nn::Linear as it is but for its parameters' values, which are left to whoever initialises
/// or loads the model: LibTorch's own random values, overwritten either way, cost DeiT-B a second.
inline torch::nn::Linear uninitialised_linear(std::int64_t in, std::int64_t out, bool bias = true) {
  torch::nn::Linear linear(torch::nn::LinearOptions(1, 1).bias(bias));
  linear->options.in_features(in).out_features(out);
  linear->weight.set_data(torch::empty({out, in}));
  if (bias) linear->bias.set_data(torch::empty({out}));
  return linear;
}

}  // namespace hydrascope::model
