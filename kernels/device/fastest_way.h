// The fastest of several ways to compute the same, by measuring them.
#pragma once

#include <functional>

namespace hydrascope::kernels::device {

/// The fastest, or if `deterministic` the first, among the ways 0 .. count - 1 that run; -1 if none
/// does. `runs` computes once, which also loads the way's kernels, and returns whether the way
/// serves; `time` measures some runs, in any unit: infinity if one of them fails.
int fastest_way(int count, bool deterministic, const std::function<bool(int way)>& runs,
                const std::function<float(int way)>& time);

}  // namespace hydrascope::kernels::device
