// Which of several ways to compute the same thing is the fastest, by measuring them.
#pragma once

#include <functional>

namespace hydrascope::kernels::device {

/// The fastest of the ways 0 .. count - 1, or if `deterministic` the first, of those that run; -1
/// where none does. `runs` computes once, which also loads what the way needs, and says whether the
/// way serves; `time` measures some runs, in any unit: infinity where one of them fails.
int fastest_way(int count, bool deterministic, const std::function<bool(int way)>& runs,
                const std::function<float(int way)>& time);

}  // namespace hydrascope::kernels::device
