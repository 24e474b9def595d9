// Activation checkpointing (Chen et al. 2016, arXiv 1604.06174) saves memory and costs time. This
// project keeps the word checkpoint for files.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace hydrascope::model {

using TensorFunction = std::function<at::Tensor(const at::Tensor&)>;

/// Gives function(x) and saves x alone; the backward pass runs `function` again, under the autocast
/// of the first run. Gradients reach x and `parameters`. `function` must compute the same both
/// times, so random numbers are drawn outside. The gradients equal a plain call's; second
/// derivatives are refused with Error(failed). Without gradient recording it is a plain call.
at::Tensor recomputed_in_backward(const TensorFunction& function, const at::Tensor& x,
                                  const std::vector<at::Tensor>& parameters);

}  // namespace hydrascope::model
