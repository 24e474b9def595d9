// Losses that are sums of independent parts (one per layer, one per chunk of queries): each part is
// differentiated as soon as it is known, and its graph is dropped before the next begins, so that
// memory is that of one part.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace hydrascope::model::training {

/// Parts of a loss in the order in which `next` gives them: a differentiable scalar, or an
/// undefined tensor at the end.
using NextPart = std::function<at::Tensor()>;

/// The sum of the parts as a scalar of one graph node whose gradients for `parameters` are ready.
/// Other leaves get none. Where gradients are off, the sum alone.
at::Tensor sum_differentiated_at_once(const std::vector<at::Tensor>& parameters,
                                      const NextPart& next);

}  // namespace hydrascope::model::training
