#include "model/attention/sparse/neighborhood_pattern.h"

#include "model/attention/sparse/axis_pattern.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace hydrascope::model {
namespace {

/// Patches along an axis that are computed together: for a window of 14 they read 21 rows of keys.
constexpr std::int64_t kTileSide = 8;

AxisRule neighborhood_rule(std::int64_t window, std::int64_t dilation, bool clips) {
  const auto keys = [=](std::int64_t position, std::int64_t length) {
    const std::int64_t phase = position % dilation;
    const std::int64_t at = position / dilation;
    const std::int64_t positions = (length - phase + dilation - 1) / dilation;
    const std::int64_t most = std::min(window, positions);
    std::int64_t begin = std::clamp<std::int64_t>(at - most / 2, 0, positions - most);
    std::int64_t end = begin + most;
    if (clips) {
      begin = std::max<std::int64_t>(0, at - window / 2);
      end = std::min(positions, at - window / 2 + window);
    }
    return AxisKeys{phase + dilation * begin, end - begin};
  };
  return {keys, dilation, kTileSide};
}

}  // namespace

std::vector<HeadPattern> neighborhood_heads(const Neighborhood& neighborhood,
                                            std::int64_t num_heads, std::int64_t dilated_heads) {
  std::int64_t dilated = dilated_heads == 0 ? num_heads : std::min(dilated_heads, num_heads);
  if (neighborhood.dilation == 1) dilated = 0;
  std::vector<HeadPattern> heads;
  const auto add = [&](std::int64_t count, std::int64_t dilation) {
    if (count == 0) return;
    const auto rule = [&](std::int64_t window) {
      return neighborhood_rule(window, dilation, neighborhood.clips);
    };
    heads.push_back({count, std::make_unique<AxisPattern>(rule(neighborhood.window.rows),
                                                          rule(neighborhood.window.columns))});
  };
  add(num_heads - dilated, 1);
  add(dilated, neighborhood.dilation);
  return heads;
}

ChoiceOption<bool> border_option(bool clips_by_default) {
  std::vector<std::pair<std::string, bool>> words{{"shift", false}, {"clip", true}};
  if (clips_by_default) std::swap(words.front(), words.back());
  return {"border", std::move(words),
          "at the picture's edge the neighbourhood moves inwards or is cut off"};
}

}  // namespace hydrascope::model
