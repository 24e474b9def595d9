#include "kernels/device/fastest_way.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace hydrascope::kernels::device {
namespace {

/// Nearly fastest ways are timed again, in turns, so that changes of the clock meet all of them.
constexpr std::size_t kMostFinalists = 3;
constexpr float kFinalistsWithin = 1.3F;
constexpr int kFinalRounds = 4;

}  // namespace

int fastest_way(int count, bool deterministic, const std::function<bool(int way)>& runs,
                const std::function<float(int way)>& time) {
  std::vector<std::pair<float, int>> timed;
  for (int way = 0; way < count; ++way) {
    if (!runs(way)) continue;
    if (deterministic) return way;
    if (const float taken = time(way); std::isfinite(taken)) timed.emplace_back(taken, way);
  }
  if (timed.empty()) return -1;
  std::ranges::stable_sort(timed, {}, &std::pair<float, int>::first);
  std::size_t finalists = 1;
  while (finalists < std::min(timed.size(), kMostFinalists) &&
         timed[finalists].first <= kFinalistsWithin * timed.front().first)
    ++finalists;
  if (finalists == 1) return timed.front().second;
  timed.resize(finalists);
  for (auto& [taken, way] : timed) taken = 0;
  for (int round = 0; round < kFinalRounds; ++round)
    for (auto& [taken, way] : timed) taken += time(way);
  return std::ranges::min_element(timed, {}, &std::pair<float, int>::first)->second;
}

}  // namespace hydrascope::kernels::device
