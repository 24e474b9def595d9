// Activation checkpointing (Chen et al. 2016, arXiv 1604.06174): memory for time. The word
// checkpoint is left to files.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace hydrascope::model {

using TensorFunction = std::function<at::Tensor(const at::Tensor&)>;

/// function(x), which keeps x alone and runs `function` again in the backward pass, under the
/// autocast of the first run. `parameters` are what else it differentiates by. It must compute the
/// same both times: random numbers are drawn outside. Gradients are those of a plain call; second
/// derivatives are refused with Error(failed). Where no gradient is recorded it is a plain call.
at::Tensor recomputed_in_backward(const TensorFunction& function, const at::Tensor& x,
                                  const std::vector<at::Tensor>& parameters);

}  // namespace hydrascope::model
